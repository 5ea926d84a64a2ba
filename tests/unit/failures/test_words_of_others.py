"""What drivers, libraries and YARN print when something else is wrong than the last line says: each
kind with instances of its own, and with neighbours that stay what they are."""

from __future__ import annotations

import pytest

from yarnam.core.failures.evidence_zones import ProcessEvidence
from yarnam.core.failures.process_failure import process_finding
from yarnam.core.failures.shipped_rules import SHIPPED_RULES
from yarnam.core.model.outcomes import FailureClass as C
from yarnam.core.model.outcomes import Finding, RetryAction
from yarnam.errors import Blame


def found(text: str, code: int = 1, signal: int = 0) -> Finding:
    log = tuple(text.strip("\n").splitlines())
    return process_finding(ProcessEvidence(code, signal, log), SHIPPED_RULES)


def raised(line: str, before: str = "") -> str:
    head = f"{before}\n" if before else ""
    frames = '  File "/job/fit.py", line 3, in <module>\n    run()'
    return f"{head}Traceback (most recent call last):\n{frames}\n{line}"


CUDNN = (
    "E cuda_dnn.cc:427] Loaded runtime CuDNN library: 8.5.0 but source was compiled with: 8.6.0."
)

KINDS = [
    # A build without CUDA, or a platform that JAX does not have.
    (raised("AssertionError: Torch not compiled with CUDA enabled"),
     1, C.CUDA_VERSION_MISMATCH, Blame.USER),
    (raised("RuntimeError: Unable to initialize backend 'cuda': Unknown backend cuda (you may need "
            "to uninstall the failing plugin package, or set JAX_PLATFORMS=cpu)"),
     1, C.CUDA_VERSION_MISMATCH, Blame.USER),
    (raised("RuntimeError: Distributed package doesn't have NCCL built in"),
     1, C.CUDA_VERSION_MISMATCH, Blame.USER),
    (raised("xgboost.core.XGBoostError: [10:00:00] ../src/common/common.h:181: XGBoost version not "
            "compiled with GPU support."), 1, C.CUDA_VERSION_MISMATCH, Blame.USER),
    # A library's own check of its arguments.
    (raised("xgboost.core.XGBoostError: [12:00:01] /w/src/objective/regression_obj.cu:65: Check "
            "failed: info.labels.Size() == preds.Size() (0 vs. 100) : Invalid shape of labels."),
     1, C.SEMANTIC_ERROR, Blame.USER),
    (raised("lightgbm.basic.LightGBMError: Check failed: (num_data) > (0) at /w/dataset.cpp, 39"),
     1, C.SEMANTIC_ERROR, Blame.USER),
    # MPI: an abort of the program's own, and a rank that crashed.
    (("bad config\nMPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n"
     "with code 7."), 7, C.CORE_DUMP, Blame.USER),
    ("application called MPI_Abort(MPI_COMM_WORLD, 3) - process 0", 3, C.CORE_DUMP, Blame.USER),
    (raised("KeyError: 'lr'") + "\nMPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD",
     1, C.SEMANTIC_ERROR, Blame.USER),
    (("prterun noticed that process rank 2 on node n3 exited on\n"
     "signal 11 (Segmentation fault)."), 139, C.INVALID_MEMORY_ACCESS, Blame.USER),
    # A nameservice that the configuration does not have, before a usage text.
    ("-ls: java.net.UnknownHostException: nameservice7\nUsage: hadoop fs [generic options]",
     255, C.INCORRECT_INPUTS, Blame.USER),
    ("java.lang.IllegalArgumentException: java.net.UnknownHostException: prod-ns", 1,
     C.INCORRECT_INPUTS, Blame.USER),
    # Neighbours: a host that does not resolve now, and a CUDA that does not start.
    ("java.net.UnknownHostException: node7.example: Name or service not known", 1,
     C.COMMUNICATION_ERROR, Blame.INFRA),
    (raised("RuntimeError: No CUDA GPUs are available"), 1, C.CUDA_INIT_FAILED, Blame.INFRA),
    # An assertion of a kernel.
    (raised("RuntimeError: CUDA error: device-side assert triggered",
            "Indexing.cu:1300: block: [3,0,0] Assertion `srcIndex < srcSelectDimSize` failed."),
     1, C.SEMANTIC_ERROR, Blame.USER),
    (raised("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED, cudaErrorAssert"),
     1, C.SEMANTIC_ERROR, Blame.USER),
    (raised("jaxlib.XlaRuntimeError: INTERNAL: CUDA_ERROR_ASSERT: device-side assert"),
     1, C.SEMANTIC_ERROR, Blame.USER),
    # A GPU number that the process does not have.
    (raised("RuntimeError: CUDA error: invalid device ordinal"), 1, C.SEMANTIC_ERROR, Blame.USER),
    (raised("RuntimeError: cuda runtime error (10) : invalid device ordinal at THCTensor.cpp:33"),
     1, C.SEMANTIC_ERROR, Blame.USER),
    (raised("AssertionError: device >= 0 && device < num_gpus"), 1, C.SEMANTIC_ERROR, Blame.USER),
    # NCCL's last error.
    (raised("torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, unhandled "
            "system error\nncclSystemError: System call failed.\nLast error:\n"
            "Error while creating shared memory segment /dev/shm/nccl-Aa1 (size 9637888)"),
     1, C.LIMIT_EXCEEDED, Blame.USER),
    (raised("torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled cuda error\n"
            "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
            "Cuda failure 'out of memory'"), 1, C.GPU_OUT_OF_MEMORY, Blame.USER),
    (raised("torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled system error\n"
            "ncclSystemError: System call failed.\nLast error:\n"
            "Call to bind failed: Address already in use"), 1, C.PORT_IN_USE, Blame.INFRA),
    # A bus error.
    ("[ERROR] [launch.py:325:sigkill_handler] ['python', 'fit.py'] exits with return code = -7",
     249, C.LIMIT_EXCEEDED, Blame.USER),
    ("  exitcode  : -7 (pid: 12)\n  traceback : Signal 7 (SIGBUS) received by PID 12",
     1, C.LIMIT_EXCEEDED, Blame.USER),
    ("mpirun noticed that process rank 1 exited on signal 7 (Bus error).",
     1, C.LIMIT_EXCEEDED, Blame.USER),
    # YARN's words, repeated.
    (("ERROR Driver: lost executor 3: Container killed by YARN for exceeding memory limits. 5.0 GB "
     "of 5 GB physical memory used."), 1, C.CPU_OUT_OF_MEMORY, Blame.USER),
    ("WARN Allocator: Exit status: -100. Diagnostics: Container released on a *lost* node.",
     1, C.NODE_LOST, Blame.INFRA),
    ("Container is running beyond physical memory limits. Killing container.",
     1, C.CPU_OUT_OF_MEMORY, Blame.USER),
    # No Hadoop client on the node.
    (raised("OSError: Unable to load libhdfs"), 1, C.LIBRARY_NOT_LOADED, Blame.USER),
    (raised("OSError: Unable to load libjvm: libjvm.so: cannot open shared object file"),
     1, C.LIBRARY_NOT_LOADED, Blame.USER),
    ("Environment variable CLASSPATH not set!\ngetJNIEnv: getGlobalJNIEnv failed",
     1, C.LIBRARY_NOT_LOADED, Blame.USER),
    # Words that a framework has for it.
    (raised("Exception: Current loss scale already at minimum - cannot decrease scale anymore."),
     1, C.DIVERGED, Blame.USER),
    (raised("FloatingPointError: Minimum loss scale reached (0.0001)."), 1, C.DIVERGED, Blame.USER),
    (raised("UnknownError: Failed to get convolution algorithm. This is probably because cuDNN "
            "failed to initialize"), 1, C.CUDA_INIT_FAILED, Blame.INFRA),
    (raised("RuntimeError: Expected to have finished reduction in the prior iteration before "
            "starting a new one."), 1, C.SEMANTIC_ERROR, Blame.USER),
    (raised("RuntimeError: Expected to mark a variable ready only once."),
     1, C.SEMANTIC_ERROR, Blame.USER),
    # A GPU that is gone, whatever CUDA says then.
    (raised("RuntimeError: CUDA error: unspecified launch failure",
            "NVRM: fallen off the bus and is not responding to commands."),
     1, C.GPU_ECC_ERROR, Blame.INFRA),
    (raised("RuntimeError: No CUDA GPUs are available",
            "Unable to determine the device handle for GPU 0000:B3:00.0: GPU is lost."),
     1, C.GPU_ECC_ERROR, Blame.INFRA),
    (raised("RuntimeError: CUDA error: unknown error", "NVRM: Xid (PCI:0000:b3:00): 79, pid=1"),
     1, C.GPU_ECC_ERROR, Blame.INFRA),
    # A token that is gone.
    (("java.lang.RuntimeException: token (HDFS_DELEGATION_TOKEN token 42 for w) can't be found in "
     "cache"), 1, C.PERMISSION_ERROR, Blame.USER),
    ("SecretManager$InvalidToken: token (token for w: HDFS_DELEGATION_TOKEN) is expired",
     1, C.PERMISSION_ERROR, Blame.USER),
    ("RemoteException: Token has expired: HDFS_DELEGATION_TOKEN owner=w",
     1, C.PERMISSION_ERROR, Blame.USER),
    # An exception that only refers to what was printed above it.
    (raised("XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed. Look at the "
            "errors above for more details.", CUDNN), 1, C.CUDA_VERSION_MISMATCH, Blame.USER),
    (raised("UnimplementedError: Graph execution error:\n\nNode: 'model/conv1/Conv2D'\n"
            "DNN library is not found.", CUDNN), 1, C.CUDA_VERSION_MISMATCH, Blame.USER),
    (raised("UnknownError: Failed to get convolution algorithm. This is probably because cuDNN "
            "failed to initialize, so try looking to see if a warning log message was printed "
            "above.", "E cuda_dnn.cc:329] Possibly insufficient driver version: 384.81.0"),
     1, C.CUDA_VERSION_MISMATCH, Blame.USER),
    # Versions of CUDA that do not fit each other.
    (raised("RuntimeError: The detected CUDA version (12.2) mismatches the version that was used "
            "to compile PyTorch (11.8)."), 1, C.CUDA_VERSION_MISMATCH, Blame.USER),
    # What NCCL refuses, and who has how many GPUs.
    (raised("horovod.common.exceptions.HorovodInternalError: ncclAllReduce failed: invalid usage"),
     1, C.SEMANTIC_ERROR, Blame.USER),
    (raised("RuntimeError: NCCL error in: /w/ProcessGroupNCCL.cpp:825, invalid argument, NCCL "
            "version 2.14.3\nncclInvalidArgument: Invalid value for an argument."),
     1, C.SEMANTIC_ERROR, Blame.USER),
    (raised("lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu: "
            "[0, 1]\n But your machine only has: [0]"), 1, C.SEMANTIC_ERROR, Blame.USER),
    (raised("django.core.exceptions.ImproperlyConfigured: SECRET is empty"),
     1, C.SEMANTIC_ERROR, Blame.USER),
    # A native extension that cannot be compiled.
    (raised("RuntimeError: Error building extension 'fused_adam'",
            "fused_adam.cpp:3:10: fatal error: cuda_runtime.h: No such file or directory"),
     1, C.LIBRARY_NOT_LOADED, Blame.USER),
    (raised("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA "
            "install root."), 1, C.LIBRARY_NOT_LOADED, Blame.USER),
    (raised("InternalError: Graph execution error:\nlibdevice not found at ./libdevice.10.bc"),
     1, C.LIBRARY_NOT_LOADED, Blame.USER),
    # torch's writer, where there is no room.
    (raised("RuntimeError: [enforce fail at inline_container.cc:300] . unexpected pos 640 vs 536"),
     1, C.DISK_FULL, Blame.INFRA),
    # Weights that do not fit the model, whatever else is unexpected.
    (raised("RuntimeError: Error(s) in loading state_dict for Net:\n"
            '\tUnexpected key(s) in state_dict: "head.weight".'),
     1, C.INCORRECT_INPUTS, Blame.USER),
    (raised("torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:"
            "dict_keys([0])"), 1, C.INCORRECT_INPUTS, Blame.USER),
    # HDFS says it otherwise in each version.
    ("put: File /a could only be written to 1 of the 2 minReplication nodes.",
     1, C.CHECKPOINT_ERROR, Blame.INFRA),
    # jax: a process that has not come yet.
    (raised("XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: "
            "PjRT_Client_Connect. Timed out task names:"), 1, C.COMMUNICATION_ERROR, Blame.INFRA),
    # Files handed from process to process.
    (raised("RuntimeError: received 1 items of ancdata"), 1, C.LIMIT_EXCEEDED, Blame.USER),
]  # fmt: skip

NEIGHBOURS = [
    (raised("RuntimeError: the validation error above 0.5 was not expected", CUDNN),
     1, C.TRACEBACK),
    (raised("KeyError: 'lr'", CUDNN), 1, C.SEMANTIC_ERROR),
    (raised("XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: save_7."),
     1, C.PEER_LOST),
    (raised("ValueError: unexpected key 'lr' in the settings"), 1, C.SEMANTIC_ERROR),
    (raised("RuntimeError: we have found information of no use"), 1, C.TRACEBACK),
    (raised("RuntimeError: CUDA error: an illegal memory access was encountered"),
     1, C.CUDA_FAILURE),
    (raised("RuntimeError: CUDA error: unspecified launch failure"), 1, C.CUDA_FAILURE),
    (raised("RuntimeError: No CUDA GPUs are available"), 1, C.CUDA_INIT_FAILED),
    (raised("AssertionError: labels differ"), 1, C.SEMANTIC_ERROR),
    (raised("torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or "
            "there was a network error"), 1, C.PEER_LOST),
    (raised("torch.distributed.DistBackendError: NCCL error: unhandled system error\nLast error:\n"
            "socketProgress: something new"), 1, C.PEER_LOST),
    ("  exitcode  : -11 (pid: 12)\n  traceback : Signal 11 (SIGSEGV) received by PID 12",
     1, C.INVALID_MEMORY_ACCESS),
    # What a log said long before, and was survived.
    (raised("ValueError: bad label 17", "Container released on a *lost* node."),
     1, C.SEMANTIC_ERROR),
    (raised("ValueError: bad label 17", "NVRM: Xid (PCI:0000:b3:00): 79, pid=1"),
     1, C.SEMANTIC_ERROR),
    (raised("ValueError: bad label 17", "RuntimeError: CUDA out of memory, trying a smaller batch"),
     1, C.SEMANTIC_ERROR),
    (raised("ValueError: loss scale must be positive"), 1, C.SEMANTIC_ERROR),
    (raised("KeyError: 'token'"), 1, C.SEMANTIC_ERROR),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "failure", "blame"), KINDS)
def test_the_reason_counts(text: str, code: int, failure: C, blame: Blame) -> None:
    finding = found(text, code)
    assert (finding.failure, finding.blame) == (failure, blame), finding


@pytest.mark.parametrize(("text", "code", "failure"), NEIGHBOURS)
def test_what_is_beside_it_stays(text: str, code: int, failure: C) -> None:
    finding = found(text, code)
    assert finding.failure is failure, finding


def test_a_mistake_of_the_program_is_no_strike_against_its_node() -> None:
    for text, code, _, blame in KINDS:
        if blame is Blame.USER:
            assert found(text, code).action not in {RetryAction.ELSEWHERE, RetryAction.FREE}


def test_a_bus_error_names_the_shared_memory() -> None:
    for finding in (found("", 0, 7), found("exits with return code = -7", 249)):
        assert finding.failure is C.LIMIT_EXCEEDED
        assert "/dev/shm" in finding.explanation + finding.hint


def test_yarns_words_in_a_log_cost_no_node_a_strike() -> None:
    finding = found("Diagnostics: Container released on a *lost* node.")
    assert finding.action is RetryAction.RETRY

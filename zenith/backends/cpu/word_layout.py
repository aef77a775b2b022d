"""The layout of blocks of words: native code and Python agree by these numbers alone."""

from __future__ import annotations

# The team's block: byte offsets of its words. Words that different threads write are 128 bytes (two cache lines, which
# processors fetch together) apart. Line 0 changes only when the team is configured.
SIZE = 8  # threads, the caller included
START = 16  # address of a callback that starts the workers
STARTED = 24  # 1 when the workers run
STOP = 32  # 1 when they shall return
MAIN = 40  # the thread that runs the handlers of signals, as ``pthread_self`` names it
ASK = 48  # address of a callback that lets these handlers run
POLL = 56  # address of the native function by which a kernel asks whether its call is interrupted
LOCK = 128  # the job slot; its owner alone uses the three words that follow
GENERATION = 136
UNAIDED = 144  # nanoseconds of work lately done alone while the team slept
LAST = 152  # when that was
CLAIM = 256  # generation << 32 | first chunk left << 16 | end of those left; the job's parameters follow
KERNEL = 264
TOTAL = 272
GRAIN = 280
ARGS = 288
PENDING = 384  # chunks not yet finished
SLEEPERS = 512  # workers that sleep and that nobody has called yet
CALLED = 520  # wake-ups not yet taken; both words are written under the mutex
MUTEX = 640  # a pthread_mutex_t
CONDITION = 768  # a pthread_cond_t
RAISED = 896  # 1 when a handler raised, until Python has taken the exception; the main thread's, like the next two
ASKING = 904  # 1 while handlers may run
ASKED = 912  # when that was, in nanoseconds
COSTS = 1024  # 64 pairs (kernel, picoseconds per item): what launches are expected to take
CORES = 2048  # the bits of the cores that the process may use
CORES_BYTES = 128
AVOIDED = 2176  # the core that workers keep off; -1 when there is none
THREADS = 2304  # the workers' system-wide thread numbers, and a zero

MAX_THREADS = 1024
BLOCK_BYTES = THREADS + 8 * MAX_THREADS
MAX_CHUNKS = 2**16 - 1
MOST_CLAIMED = 4  # chunks that a thread claims at once
CLAIMS_LEFT = 4  # claims for each thread in what is left, while they are of several chunks
SPINS = 2000
SPINS_BEFORE_YIELD = 200
WAKE_WORK = 100_000  # ns
RECENT = 1_000_000  # ns
ASK_EVERY = 200_000_000  # ns: how long a call goes on after a signal at most, but for the chunk that is running
ROWS_BEFORE_LOOK = 16  # rows of a table, after which a call looks at the clock

# A program's frame (see ``driver``): numbers of words.
TEAM, TABLE, LAUNCHES, PATCHES, LAST_PATCH, STATUSES, LAST_STATUS, FIRST = range(8)
ROW = 4  # words of a launch in the table
STATUS = 2  # words of a launch that kernels find by the first word of their block: its status, the team's address

# How running rows of a table went, where all is not well.
FAILED, INTERRUPTED, STRIDED = 1, 2, 3

# Fields of an object, and of a NumPy array after its header: ``Py_TYPE``, ``PyArray_DATA`` and the like, inlined into
# every extension module ever compiled for CPython and NumPy, read them there.
OBJECT_TYPE = object.__basicsize__ - 8
ARRAY_DATA = object.__basicsize__
ARRAY_RANK = ARRAY_DATA + 8
ARRAY_DIMENSIONS = ARRAY_DATA + 16
ARRAY_DESCR = ARRAY_DATA + 40
ARRAY_FLAGS = ARRAY_DATA + 48
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400

# A ``DLTensor``, of which libraries fill one: byte offsets of its fields, some of which share a word.
VIEW_DATA, VIEW_DEVICE, VIEW_KIND, VIEW_SIZES, VIEW_STRIDES, VIEW_OFFSET, VIEW_BYTES = range(0, 56, 8)

# The record of a cached call (see ``cached_call``): numbers of words. Blocks of its arguments come next, those of its
# results, pairs of arguments that must not overlap, and questions.
BUSY, HITS, FRAME, ARGUMENTS, RESULTS, PAIRS, RETURNED_RESULTS, RETURNS_TUPLE = range(8)
MISSED, NOTHING, OUTCOME, REPORT, NEW_ARRAY, NEW_SCALAR, ARRAY_TYPE = range(8, 15)
STALE, LOOK, VIEW, QUESTIONS, RUNNER, FINISH, BLOCKS = range(15, 22)
KIND, TARGET, DESCR, RANK, DIMENSIONS, TYPE, FLAGS, EXPECTED, STRIDES, DEVICE, ARGUMENT_BLOCK = range(11)
SOURCE, BYTES, MADE, RESULT_BLOCK = 5, 6, 7, 8
ONE, ONE_BYTES, OTHER_ONE, OTHER_BYTES, PAIR_BLOCK = range(5)
FUNCTION, SUBJECT, POSITION, ANSWER, QUESTION_BLOCK = range(5)
ARRAY, REAL, INTEGER, SIZE_NUMBER, FOREIGN = range(5)  # kinds of arguments; FOREIGN arrays are another library's
SCALAR, IN_PLACE, COPIED, RETURNED, AXIS_SIZE, TRIMMED = range(5, 11)  # kinds of results, after ARRAY and FOREIGN
PYTHON_BOOL, PYTHON_INT, PYTHON_FLOAT, PYTHON_COMPLEX = range(11, 15)  # further ones

# Opcodes of rows that launch nothing, in the word where others have a kernel's address (see ``step_table``).
BEGIN, TEST, END, EXIT, SELECT, JUMP, RESIZE = range(1, 8)

# A loop's block: numbers of words. Its carried values follow, ``CARRY`` words each, then its slices.
COUNT, LEFT, FLAG, SLICES, SLICES_END, MOVES, LAST_MOVE, CARRIES = range(8)
FROM, RESULT, OTHER, LENGTH, CURRENT, FOLLOWING, CARRY = range(7)
WHOLE, STRIDE, OFFSET, ADDRESS, SLICE = range(5)

# A branch's block: the address of its index, the number of branches, and the addresses of their first rows.
INDEX, BRANCHES, CASES = range(3)

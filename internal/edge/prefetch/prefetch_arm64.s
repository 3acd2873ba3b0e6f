#include "textflag.h"

// func forReading(p unsafe.Pointer)
TEXT ·forReading(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func forWriting(p unsafe.Pointer)
TEXT ·forWriting(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PSTL1KEEP
	RET

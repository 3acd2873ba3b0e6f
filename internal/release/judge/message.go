package judge

import (
	"fmt"
	"strconv"
	"time"
)

// errorMessage describes the errors of both revisions, as in "5 % errors (12 of 240)
// against 0.1 % (2 of 2,160)".
func errorMessage(d Decision) string {
	return fmt.Sprintf("%s errors (%s of %s) against %s (%s of %s)",
		percent(d.Canary.ErrorRate), Number(d.Canary.Errors), Number(d.Canary.Requests),
		percent(d.Stable.ErrorRate), Number(d.Stable.Errors), Number(d.Stable.Requests))
}

// quantileMessage describes the latency of both revisions at a level.
func quantileMessage(level float64, canary, stable time.Duration, requests uint64) string {
	return fmt.Sprintf("p%.0f of %s against %s (%s requests)", 100*level, duration(canary), duration(stable), Number(requests))
}

// waitMessage describes how many requests are missing.
func waitMessage(have, want uint64) string {
	if have >= want {
		return "waiting for more requests of both revisions"
	}
	return fmt.Sprintf("waiting for %s requests, %s so far", Number(want), Number(have))
}

// percent formats a rate for people: 0 %, 0.1 %, 4.1 %, 12 %.
func percent(rate float64) string {
	switch p := 100 * rate; {
	case p == 0:
		return "0 %"
	case p < 0.05:
		return "less than 0.1 %"
	case p < 9.95:
		return strconv.FormatFloat(float64(int(p*10+0.5))/10, 'f', -1, 64) + " %"
	default:
		return strconv.FormatFloat(p, 'f', 0, 64) + " %"
	}
}

// Number formats a number with commas between thousands.
func Number(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// duration formats a duration with two or three digits.
func duration(d time.Duration) string {
	number, unit := float64(d)/float64(time.Millisecond), " ms"
	if d >= time.Second {
		number, unit = d.Seconds(), " s"
	}
	digits := 0
	if number < 9.95 {
		digits = 1
	}
	return strconv.FormatFloat(number, 'f', digits, 64) + unit
}

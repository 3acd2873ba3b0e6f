package accountcmd

import (
	"time"
)

// Lifetime reads a length of time, and gives it as it is shown.
func Lifetime(text string) (time.Duration, string, error) {
	var read lifetime
	err := read.Set(text)
	return time.Duration(read), read.String(), err
}

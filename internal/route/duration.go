package route

import (
	"errors"
	"time"
)

// Duration is a time span that is written as text, such as 1m30s.
type Duration time.Duration

// String is the text form.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText is the text form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the text form. A number needs a unit.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return errors.New("not a duration; write a number and a unit, such as 500ms or 1m30s")
	}
	*d = Duration(parsed)
	return nil
}

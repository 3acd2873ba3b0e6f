package apiclient

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/cli/exit"
)

// ParseDuration parses a duration such as 12h or 90d and refuses negative ones.
// A hundred years is the bound for days, below the overflow of time.Duration.
func ParseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		number, err := strconv.Atoi(days)
		if err != nil || number < 0 || number > 36600 {
			return 0, fmt.Errorf("%q is no number of days: write one such as 90d", text)
		}
		return time.Duration(number) * 24 * time.Hour, nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil || parsed < 0 {
		return 0, fmt.Errorf("%q is no length of time: write one such as 12h or 90d", text)
	}
	return parsed, nil
}

// Moment parses the value of flags such as --since: a time in RFC 3339, or a
// duration before now. An empty text is no bound and gives nil. Any other text
// is a usage error that names the flag.
func Moment(flag, text string, now time.Time) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	// A time in RFC 3339 never parses as a duration, so the order is free.
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return timestamppb.New(at), nil
	}
	before, err := ParseDuration(text)
	if err != nil {
		return nil, exit.UsageError{Err: fmt.Errorf("--%s: %q is neither a length of time such as 24h or 7d nor a time such as 2026-01-02T15:04:05Z", flag, text)}
	}
	return timestamppb.New(now.Add(-before)), nil
}

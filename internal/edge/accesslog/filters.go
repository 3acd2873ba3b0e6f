package accesslog

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/proxy"
)

// Filters select the requests that are written. A request is written if any of them
// selects it.
type Filters struct {
	// StatusCodes are statuses such as 404, or ranges such as 500-599.
	StatusCodes []string
	// RetryAttempts selects requests that were retried.
	RetryAttempts bool
	// MinDuration selects requests that took longer.
	MinDuration time.Duration
}

// filters are compiled Filters.
type filters struct {
	any      bool
	statuses [600]bool
	retries  bool
	longer   time.Duration
}

// compile parses the statuses once.
func (f Filters) compile() (filters, error) {
	out := filters{any: len(f.StatusCodes) > 0 || f.RetryAttempts || f.MinDuration > 0, retries: f.RetryAttempts, longer: f.MinDuration}
	for _, text := range f.StatusCodes {
		from, to, err := statusRange(text)
		if err != nil {
			return filters{}, err
		}
		for status := from; status <= to; status++ {
			out.statuses[status] = true
		}
	}
	return out, nil
}

// statusRange parses 404 or 500-599. 0 is a request that got no response.
func statusRange(text string) (from, to int, err error) {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	from, errFrom := strconv.Atoi(strings.TrimSpace(first))
	to, errTo := strconv.Atoi(strings.TrimSpace(last))
	if errFrom != nil || errTo != nil || from < 0 || from > to || to > 599 {
		return 0, 0, fmt.Errorf("the access log filter has the status %q: write 404 or 500-599", text)
	}
	return from, to, nil
}

// want reports whether a record is written.
func (f *filters) want(r *proxy.Record) bool {
	// Without filters every record is written.
	if !f.any {
		return true
	}
	return r.Status >= 0 && r.Status < len(f.statuses) && f.statuses[r.Status] ||
		f.retries && r.Retries() > 0 ||
		f.longer > 0 && r.Duration > f.longer
}

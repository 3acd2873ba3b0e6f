package programs

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// maxPage bounds the size of a page: a profile or the metrics.
const maxPage = 64 << 20

// Get requests a page of a server. It uses a connection of its own, so that no
// idle one counts as an open file of the server or as a goroutine of the test.
func Get(ctx context.Context, url string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	request.Close = true // so that the server closes as well
	response, err := new(http.Transport).RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	return response.StatusCode, string(text), err
}

// Fetch is Get where any other status than 200 is an error with the body as its
// text.
func Fetch(ctx context.Context, url string) (string, error) {
	status, body, err := Get(ctx, url)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d from %s: %s", status, url, strings.TrimSpace(body))
	}
	return body, err
}

// Metric returns the sum of all series of a metric on a page whose labels
// contain a text, and whether the page has the metric at all: counters appear
// with their first increment.
func Metric(page, name, labels string) (sum float64, found bool, err error) {
	for line := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(line, name)
		// Another metric may have this name as its prefix.
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		// A label may contain a space; the value does not.
		rest = strings.TrimSpace(rest)
		value := rest[strings.LastIndexByte(rest, ' ')+1:]
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, false, fmt.Errorf("metric %s: %w", name, err)
		}
		found = true
		if strings.Contains(strings.TrimSuffix(rest, value), labels) {
			sum += number
		}
	}
	return sum, found, nil
}

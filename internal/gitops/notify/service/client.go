package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"slipway.dev/slipway/internal/outbound"
)

const (
	// maxResponse bounds what is read of a response.
	maxResponse = 256 << 10
	// maxPause bounds how long a service can request to wait.
	maxPause = 10 * time.Minute
)

// PermanentError is a failure that another attempt would repeat: a template, the options
// or the recipient have to change first.
type PermanentError struct{ reason string }

// Error returns the reason.
func (e *PermanentError) Error() string { return e.reason }

func permanent(format string, values ...any) error {
	return &PermanentError{fmt.Sprintf(format, values...)}
}

// BusyError is a request of a service for a pause.
type BusyError struct {
	// After is how long.
	After time.Duration
}

// Error has the time.
func (e *BusyError) Error() string { return fmt.Sprintf("the service requests a pause of %s", e.After) }

// connectTimeout bounds the start of a connection to a service.
const connectTimeout = 5 * time.Second

// Clients makes the connections of services.
type Clients struct {
	policy     *outbound.Policy
	transports *outbound.Transports
}

// NewClients returns clients without connections. A nil policy allows every address.
func NewClients(policy *outbound.Policy) *Clients {
	return &Clients{policy: policy, transports: outbound.NewTransports(policy, connectTimeout)}
}

// Close closes idle connections.
func (c *Clients) Close() { c.transports.Close() }

// of returns the client of a service. Redirects are not followed: they would lead a
// credential elsewhere.
func (c *Clients) of(options httpOptions) *http.Client {
	return &http.Client{
		Transport:     c.transports.For(options.InsecureSkipVerify),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// exchange is one request and what came back.
type exchange struct {
	method, url string
	header      http.Header
	body        []byte
	// limit bounds the response; maxResponse if it is 0.
	limit int64

	status   int
	response []byte
}

// postJSON returns a request with a JSON body.
func postJSON(address string, body any) (*exchange, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, permanent("encode the message: %v", err)
	}
	return &exchange{method: http.MethodPost, url: address, body: encoded, header: http.Header{"Content-Type": {"application/json"}}}, nil
}

// do sends the request. A status that is not in the 200s is an error.
func (e *exchange) do(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, e.method, e.url, bytes.NewReader(e.body))
	if err != nil {
		return permanent("the address or the method of the service is invalid")
	}
	for name, values := range e.header {
		request.Header[name] = values
	}
	response, err := client.Do(request)
	if err != nil {
		return withoutAddress(err)
	}
	defer response.Body.Close()
	e.response, err = io.ReadAll(io.LimitReader(response.Body, cmp.Or(e.limit, maxResponse)))
	if err != nil {
		return withoutAddress(err)
	}
	e.status = response.StatusCode
	return statusError(response)
}

// decode reads the response as JSON.
func (e *exchange) decode(into any) error {
	if err := json.Unmarshal(e.response, into); err != nil {
		return fmt.Errorf("the response is no JSON: %w", err)
	}
	return nil
}

// statusError is the error of a status; nil for those in the 200s. Statuses that a client
// cannot repair by a retry are permanent.
func statusError(response *http.Response) error {
	status := response.StatusCode
	switch {
	case status/100 == 2:
		return nil
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "":
		return &BusyError{After: retryAfter(response.Header.Get("Retry-After"))}
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly || status/100 == 5:
		return fmt.Errorf("the service responds %s", response.Status)
	}
	return permanent("the service responds %s", response.Status)
}

// retryAfter reads the header, in seconds.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.Atoi(header)
	if err != nil || seconds < 1 {
		return 5 * time.Second
	}
	return min(time.Duration(min(seconds, 1<<20))*time.Second, maxPause)
}

// withoutAddress drops the address of a request from its error: some have a token in it.
func withoutAddress(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	if refused, ok := errors.AsType[*outbound.RefusedError](err); ok {
		return permanent("%v", refused)
	}
	return err
}

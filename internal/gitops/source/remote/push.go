package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// Bounds of what a server sends during a push.
const (
	maxAdvertised = 32 << 20
	maxReport     = 1 << 20
)

// receivePack is the service that takes pushes.
const receivePack = "git-receive-pack"

// heads is where branches are.
const heads = "refs/heads/"

// Update is one branch that a push moves.
type Update struct {
	Ref           string
	Before, After ID     // Before is zero for a branch that does not exist
	Pack          []byte // objects that the server does not have
}

// RejectedError is a push that the server understood and refused.
type RejectedError struct {
	Ref string
	// Reason is the server's text, on one line.
	Reason string
}

// Error names the branch, the reason and what to do.
func (e *RejectedError) Error() string {
	advice := "check who may push to this branch"
	if e.Conflict() {
		advice = "another push was faster"
	}
	return fmt.Sprintf("the server rejects a push to %s: %s: %s", strings.TrimPrefix(e.Ref, heads), e.Reason, advice)
}

// Conflict reports whether the reason reads like a lost race against another
// push. Servers word it differently and have no code for it. The caller does
// not need it where it can see that the branch has moved.
func (e *RejectedError) Conflict() bool {
	lower := strings.ToLower(e.Reason)
	return slices.ContainsFunc([]string{"lock", "fetch first", "non-fast-forward", "stale", "already exists", "incorrect old value", "failed to update", "is at "},
		func(words string) bool { return strings.Contains(lower, words) })
}

// Push moves a branch from one commit to another. The server compares Before
// with the branch, so that a push that lost a race changes nothing and is a
// *[RejectedError]. Every other error is a *[Failure].
func (c *Client) Push(ctx context.Context, update Update) error {
	message, err := update.request()
	if err != nil {
		return err
	}
	response, err := c.transport.push(ctx, message)
	if err != nil {
		return ConnectionFailure(ctx, err)
	}
	return update.readReport(bytes.NewReader(response))
}

// request is the command, followed by the pack.
func (u Update) request() ([]byte, error) {
	var out bytes.Buffer
	lines := pktline.NewEncoder(&out)
	err := lines.EncodeString(fmt.Sprintf("%s %s %s\x00report-status agent=slipway\n", u.Before, u.After, u.Ref))
	if err := errors.Join(err, lines.Flush()); err != nil {
		return nil, err
	}
	out.Write(u.Pack)
	return out.Bytes(), nil
}

// readReport reads the result of the command (report-status of
// gitprotocol-pack). Anything but "ok" for the branch, after "unpack ok", is a
// failure: a push whose result is unknown must not count as done. An unknown
// line is skipped, because servers add hints of their own.
func (u Update) readReport(r io.Reader) error {
	lines := pktline.NewScanner(r)
	unpacked := false
	for lines.Scan() {
		line := strings.TrimSuffix(string(lines.Bytes()), "\n")
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case word == "unpack" && rest == "ok":
			unpacked = true
		case word == "unpack":
			return &RejectedError{Ref: u.Ref, Reason: "it cannot store the commit: " + rejectReason(rest)}
		case word == "ng":
			return &RejectedError{Ref: u.Ref, Reason: rejectReason(strings.TrimPrefix(rest, u.Ref+" "))}
		case word == "ok" && rest == u.Ref && unpacked:
			return nil
		}
	}
	if refused, ok := errors.AsType[*pktline.ErrorLine](lines.Err()); ok {
		return &RejectedError{Ref: u.Ref, Reason: rejectReason(refused.Text)}
	}
	return failf(Unreachable, "the server does not report the result of the push")
}

// rejectReason is a reason of a server for people.
func rejectReason(text string) string {
	if text = plainText(text); text == "" {
		return "it gives no reason"
	}
	return text
}

// push requests the refs first: that shows whether the identity may push, and
// where the repository moved to, before the pack is sent.
func (h *httpTransport) push(ctx context.Context, message []byte) ([]byte, error) {
	start := h.client.address.String() + refsPath + "?service=" + receivePack
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, start, nil)
	if err != nil {
		return nil, failf(Invalid, "the address cannot be requested")
	}
	at, _, err := h.receivePack(request, "advertisement", maxAdvertised)
	if err != nil {
		return nil, err
	}
	path, found := strings.CutSuffix(at.Path, refsPath)
	if !found || at.Host != h.client.address.HostPort() {
		// A fetch follows a server to another host without credentials. A push
		// needs them, and they are for this host.
		return nil, failf(Denied, "it redirects to another place: write that address instead")
	}
	target := url.URL{Scheme: at.Scheme, Host: at.Host, Path: path + "/" + receivePack}
	request, err = http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(message))
	if err != nil {
		return nil, failf(Invalid, "the address cannot be requested")
	}
	request.Header.Set("Content-Type", "application/x-"+receivePack+"-request")
	_, report, err := h.receivePack(request, "result", maxReport)
	return report, err
}

// receivePack sends one request of a push and returns the body of the response,
// with the address that sent it after redirects.
func (h *httpTransport) receivePack(request *http.Request, kind string, limit int64) (*url.URL, []byte, error) {
	response, err := h.do(request, "application/x-"+receivePack+"-"+kind)
	if failure, ok := errors.AsType[*Failure](err); ok && failure.Reason == Denied && !h.identity.IsZero() {
		return nil, nil, &Failure{Reason: Denied, Err: err, Message: "the server does not allow the push: check that the token may write to this repository"}
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, limit))
	return response.Request.URL, body, err
}

// push runs the service on the host. It is another connection than the one that
// fetched, and the host key is checked again. Closing the input ends the pack;
// the server sends its report only after that.
func (s *sshTransport) push(ctx context.Context, message []byte) ([]byte, error) {
	var report []byte
	err := s.run(ctx, receivePack, func(_ *Advertisement, in io.WriteCloser, out io.Reader) error {
		if _, err := in.Write(message); err != nil {
			return err
		}
		if err := in.Close(); err != nil {
			return err
		}
		var err error
		report, err = io.ReadAll(io.LimitReader(out, maxReport))
		return err
	})
	return report, err
}

package sharedrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"slipway.dev/slipway/internal/gitops/source/objects"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// What is read of a server that is pushed to.
const (
	maxAdvertised = 32 << 20
	maxReport     = 1 << 20
)

// receivePack is the program at the other side.
const receivePack = "git-receive-pack"

// update is one branch that is to move.
type update struct {
	ref           string
	before, after objects.ID // before is zero for a branch that does not exist
	pack          []byte
}

// RejectedError is a push that the server understood and refused.
type RejectedError struct {
	Ref string
	// Reason is the server's, made plain.
	Reason string
}

// Error says what to do.
func (e *RejectedError) Error() string {
	advice := "check who may push to this branch"
	if e.busy() {
		advice = "somebody else pushed at the same time"
	}
	return fmt.Sprintf("the server does not take a push to %s: %s: %s", strings.TrimPrefix(e.Ref, heads), e.Reason, advice)
}

// busy reports whether the words are those of a race. They are not needed where
// the branch is seen to have moved.
func (e *RejectedError) busy() bool {
	lower := strings.ToLower(e.Reason)
	for _, words := range []string{"lock", "fetch first", "non-fast-forward", "stale", "already exists", "incorrect old value", "failed to update", "is at "} {
		if strings.Contains(lower, words) {
			return true
		}
	}
	return false
}

// push asks the server to move the branch from the one commit to the other, and
// from no other one.
func (r *Repository) push(ctx context.Context, u update) error {
	message, err := u.message()
	if err != nil {
		return err
	}
	var answer []byte
	if r.address.Scheme == "ssh" {
		answer, err = r.pushSSH(ctx, message)
	} else {
		answer, err = r.pushHTTP(ctx, message)
	}
	if err != nil {
		return r.explain(remote.Broken(ctx, err))
	}
	if err := u.readReport(bytes.NewReader(answer)); err != nil {
		return r.explain(err)
	}
	return nil
}

// message is the command and the pack.
func (u update) message() ([]byte, error) {
	var out bytes.Buffer
	lines := pktline.NewEncoder(&out)
	err := lines.EncodeString(fmt.Sprintf("%s %s %s\x00report-status agent=slipway\n", u.before, u.after, u.ref))
	if err := errors.Join(err, lines.Flush()); err != nil {
		return nil, err
	}
	out.Write(u.pack)
	return out.Bytes(), nil
}

// readReport reads what became of the command. Anything but ok for the branch is
// a failure.
func (u update) readReport(r io.Reader) error {
	lines := pktline.NewScanner(r)
	unpacked := false
	for lines.Scan() {
		line := strings.TrimSuffix(string(lines.Bytes()), "\n")
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case word == "unpack" && rest == "ok":
			unpacked = true
		case word == "unpack":
			return &RejectedError{Ref: u.ref, Reason: "it cannot store the commit: " + plainReason(rest)}
		case word == "ng":
			return &RejectedError{Ref: u.ref, Reason: plainReason(strings.TrimPrefix(rest, u.ref+" "))}
		case word == "ok" && rest == u.ref && unpacked:
			return nil
		}
	}
	var told *pktline.ErrorLine
	if errors.As(lines.Err(), &told) {
		return &RejectedError{Ref: u.ref, Reason: plainReason(told.Text)}
	}
	return &remote.Failure{Reason: remote.Unreachable, Message: "the server does not say what became of the push"}
}

// skipAdvertisement reads the list of refs that a server begins with. What it
// says is known from fetching.
func skipAdvertisement(r io.Reader) error {
	lines := pktline.NewScanner(io.LimitReader(r, maxAdvertised))
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			return nil
		}
	}
	var told *pktline.ErrorLine
	if errors.As(lines.Err(), &told) {
		return &remote.Failure{Reason: remote.Denied, Message: "the server says: " + plainReason(told.Text)}
	}
	return &remote.Failure{Reason: remote.Unreachable, Message: "it does not answer as a Git server does"}
}

// plainReason is text of a server for people: one line, not long, nothing odd.
func plainReason(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == unicode.ReplacementChar {
			return ' '
		}
		return c
	}, text)
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	if text = strings.TrimSpace(text); text == "" {
		return "it gives no reason"
	}
	return text
}

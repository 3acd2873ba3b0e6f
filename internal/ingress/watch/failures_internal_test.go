package watch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/refusal"
)

var secretsResource = schema.GroupResource{Resource: "secrets"}

func refusedBy(port int) error {
	return &url.Error{Op: "Get", URL: "https://x/api?long", Err: &net.OpError{
		Op: "read", Addr: &net.TCPAddr{Port: port}, Err: syscall.ECONNREFUSED,
	}}
}

// A kind that the cluster does not define is no failure, and is logged once for its group,
// below the level of a warning.
func TestUndefinedKindIsNoFailure(t *testing.T) {
	var text bytes.Buffer
	f := newFailures(slog.New(slog.NewTextHandler(&text, nil)))
	missing := apierrors.NewNotFound(schema.GroupResource{}, "")
	for _, resource := range []string{"ingressroutes.traefik.io", "tlsstores.traefik.io", "ingressroutes.traefik.containo.us", "ingressroutes.traefik.io"} {
		feed := &feed{source: source{name: feedName{resource: resource}, optional: true}, failures: f}
		feed.note("list", missing)
	}
	if left := f.current(); len(left) > 0 || f.duration() > 0 {
		t.Errorf("failures are %v", left)
	}
	if log := text.String(); strings.Count(log, "\n") != 2 || strings.Count(log, "level=INFO") != 2 || !strings.Contains(log, "resource=ingressroutes.traefik.containo.us") {
		t.Errorf("logged %s", log)
	}
	needed := &feed{source: source{name: feedName{resource: "ingresses"}}, failures: f}
	needed.note("list", missing)
	if f.current()["ingresses"] == nil {
		t.Error("a kind that every cluster has is missing, and that is no failure")
	}
}

// A failure is logged when it is another one than before, and when it ends.
func TestFailuresAreLoggedOnce(t *testing.T) {
	var text bytes.Buffer
	f := newFailures(slog.New(slog.NewTextHandler(&text, nil)))
	forbidden := apierrors.NewForbidden(secretsResource, "a", errors.New("no right"))
	steps := []struct {
		name  string
		of    attempt
		err   error
		lines int
	}{
		{"nothing", attempt{"a", "list"}, nil, 0},
		{"first", attempt{"a", "list"}, refusedBy(1), 1},
		{"the same from another port", attempt{"a", "list"}, refusedBy(2), 0},
		{"the same in another namespace", attempt{"b", "watch"}, refusedBy(3), 0},
		{"another one", attempt{"a", "list"}, forbidden, 1},
		{"stopped", attempt{"a", "list"}, context.Canceled, 0},
		{"one is well", attempt{"a", "list"}, nil, 0},
		{"all are well", attempt{"b", "watch"}, nil, 1},
		{"still well", attempt{"b", "watch"}, nil, 0},
	}
	for _, step := range steps {
		text.Reset()
		f.note("secrets", step.of, step.err)
		if got := strings.Count(text.String(), "\n"); got != step.lines {
			t.Errorf("%s: logged %d lines, want %d: %s", step.name, got, step.lines, text.String())
		}
		if strings.Contains(text.String(), "?long") {
			t.Errorf("%s: the URL is in the log: %s", step.name, text.String())
		}
	}
	if left := f.current(); len(left) > 0 {
		t.Errorf("failures %v are left", left)
	}
}

// What an error means for who needs the Secret.
func TestVerdict(t *testing.T) {
	forbidden := apierrors.NewForbidden(secretsResource, "a", errors.New("no right"))
	broken := apierrors.NewInternalError(errors.New("cannot decrypt"))
	busy := apierrors.NewServiceUnavailable("starting")
	tests := []struct {
		name   string
		good   bool
		failed int
		err    error
		want   bool
	}{
		{"forbidden at first", false, 1, forbidden, true},
		{"forbidden suddenly", true, 1, forbidden, false},
		{"forbidden for good", true, denialsBelieved, forbidden, true},
		{"broken at first", false, 1, broken, false},
		{"broken for good", false, denialsBelieved, broken, true},
		{"broken later", true, 100, broken, false},
		{"busy", false, 100, busy, false},
		{"away", false, 100, refusedBy(1), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			secret := &wantedSecret{published: test.good, failed: test.failed}
			fault := secret.faultOf(name{"shop", "tls"}, test.err)
			if (fault != nil) != test.want {
				t.Fatalf("got %v, want a fault: %t", fault, test.want)
			}
			if fault != nil && fault.Reason != refusal.Unreadable {
				t.Errorf("the reason is %s", fault.Reason)
			}
		})
	}
}

// Pauses grow, have an end, and are not the same twice.
func TestPauses(t *testing.T) {
	p := defaultTiming()
	seen := map[time.Duration]bool{}
	for failed := range 100 {
		pause := p.retryDelay(failed+1, refusedBy(1))
		seen[pause] = true
		if pause < p.first || pause > p.longest*3/2 {
			t.Errorf("after %d failures the pause is %s", failed+1, pause)
		}
		if failed > 10 && pause < p.longest {
			t.Errorf("after %d failures the pause is %s, want %s or more", failed+1, pause, p.longest)
		}
	}
	if len(seen) < 50 {
		t.Errorf("there are %d pauses of 100, want them to differ", len(seen))
	}
}

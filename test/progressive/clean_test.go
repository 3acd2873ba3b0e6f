package progressive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// Clean releases, canary and blue-green, fail no request of clients that keep their
// connections, of WebSockets and of gRPC.
func TestCleanReleases(t *testing.T) {
	if !isLong() {
		t.Skip("it takes minutes: make progressive")
	}
	w := newWorldWith(t, "", kubetest.Programs(map[string]string{streamsImage: buildProgram(t, "streams")}))
	w.startAgent(t)
	w.deployed(t)
	// The releases begin with the second commit, which brings the program.
	rate := programs.Setting(t, "PROGRESSIVE_RATE", 1000)
	requests, _ := w.load(t, http.MethodGet, rate)
	w.released(t, revision{image: w.good(), program: streamsImage})
	streams := w.streams(t, rate/10)
	for _, strategy := range []string{
		"steps: [{weight: 50, hold: 1s, requests: 100}]", "strategy: blue-green, steps: [{weight: 0, hold: 1s}]",
	} {
		for range programs.Setting(t, "PROGRESSIVE_RELEASES", 50) {
			beforeRequests, beforeStreams, began := requests.counts(), streams.counts(), time.Now()
			w.released(t, revision{image: w.good(), policy: strategy, program: streamsImage})
			plain, long := requests.counts().since(beforeRequests), streams.counts().since(beforeStreams)
			took := time.Since(began)
			t.Logf("%s: %s: %d of %d requests (%.0f/s) and %d of %d messages and calls failed", strategy, took.Round(time.Second),
				plain.failed, plain.requests, float64(plain.requests)/took.Seconds(), long.failed, long.requests)
			if plain.failed+long.failed > 0 {
				t.Errorf("failed: %s %s", requests.lastError(), streams.lastError())
			}
		}
	}
}

// buildProgram builds a program of testdata.
func buildProgram(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/"+name)
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	return program
}

// released waits for the end of the release of a good revision.
func (w *world) released(t *testing.T, of revision) {
	t.Helper()
	w.ends(t, w.push(t, of), false)
}

// streams sends messages on WebSockets and calls of gRPC, each at a rate.
func (w *world) streams(t *testing.T, perSecond int) *load {
	t.Helper()
	l := &load{pending: map[int]bool{}, versions: map[string]*version{}}
	conn := must.Get(grpc.NewClient("passthrough:///"+w.web, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority(w.callHost()), grpc.WithDisableRetry(), grpc.WithNoProxy()))(t)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	const gap, messages = 100 * time.Millisecond, 20
	for range max(perSecond/int(time.Second/gap), 1) {
		running.Go(func() {
			for ctx.Err() == nil {
				w.converse(ctx, l, messages, gap)
			}
		})
	}
	running.Go(func() {
		pace(ctx, perSecond, func() {
			running.Go(func() {
				limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				var out wrapperspb.StringValue
				l.note(conn.Invoke(limited, "/shop.Echo/Say", wrapperspb.String("hello"), &out))
			})
		})
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		_ = conn.Close()
	})
	return l
}

// converse exchanges messages on a WebSocket. Each of them counts as a request.
func (w *world) converse(ctx context.Context, l *load, messages int, gap time.Duration) {
	limited, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(limited, "ws://"+w.web+"/echo", &websocket.DialOptions{Host: w.host()})
	if err != nil {
		l.note(fmt.Errorf("open a WebSocket: %w", err))
		<-time.After(gap)
		return
	}
	defer func() { _ = conn.CloseNow() }()
	for range messages {
		if ctx.Err() != nil {
			return
		}
		err := conn.Write(limited, websocket.MessageText, []byte("hello"))
		if err == nil {
			var text []byte
			if _, text, err = conn.Read(limited); err == nil && string(text) != "hello" {
				err = errors.New("a message came back as " + string(text))
			}
		}
		if l.note(err); err != nil {
			return
		}
		<-time.After(gap)
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

// note counts a request.
func (l *load) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.requests++
	if err != nil {
		l.total.failed++
		l.failure = err.Error()
	}
}

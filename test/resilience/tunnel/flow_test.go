package tunnel

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/programs"
)

const gigabyte = 1 << 30

// zeros returns as many zero bytes as are left.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left))
	z.left -= int64(n)
	clear(p[:n])
	return n, nil
}

// data serves /app-proxy/<n>: so many bytes, or how many came.
var data = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
		return
	}
	n, _ := strconv.ParseInt(r.URL.Path[len("/app-proxy/"):], 10, 64)
	_, _ = io.Copy(w, &zeros{n})
})

// heap watches how much memory is in use at most.
func heap(t testing.TB) (most func() int64) {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	base, highest := int64(sample[0].Value.Uint64()), int64(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				metrics.Read(sample)
				highest = max(highest, int64(sample[0].Value.Uint64())-base)
			case <-stop:
				return
			}
		}
	}()
	finish := sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
	t.Cleanup(finish)
	return func() int64 {
		finish()
		return highest
	}
}

// A gigabyte goes through one stream in each direction, and both ends together keep a
// few megabytes of it. It is an eighth of that without RESILIENCE=long, for the race
// detector on a busy machine.
func TestGigabyte(t *testing.T) {
	size := int64(gigabyte / 8)
	if long() {
		size = gigabyte
	}
	p := openPlatform(t, sqlite(t))
	r := p.start(t, "one", "", hub.Timing{})
	a := p.register(t, "a")
	p.join(t, a, r.address, data, tunnel.Timing{})
	for _, direction := range []string{"to the platform", "to the agent"} {
		t.Run(direction, func(t *testing.T) {
			most := heap(t)
			began := time.Now()
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://any.test/app-proxy/"+strconv.FormatInt(size, 10), nil)
			if direction == "to the agent" {
				request, _ = http.NewRequestWithContext(t.Context(), http.MethodPost, "http://any.test/app-proxy/", &zeros{size})
			}
			response := must.Get(r.Transport(a.ID).RoundTrip(request))(t)
			defer response.Body.Close()
			n, err := io.Copy(io.Discard, response.Body)
			if err != nil || direction == "to the platform" && n != size {
				t.Fatalf("%d bytes, %v", n, err)
			}
			took, used := time.Since(began), most()
			t.Logf("%.0f MB/s, %d MiB of memory", float64(size)/1e6/took.Seconds(), used>>20)
			if used > 48<<20 {
				t.Errorf("%d MiB of memory for one stream", used>>20)
			}
		})
	}
}

// 200 streams without a reader keep their windows, and others go on.
func TestStalledStreams(t *testing.T) {
	const streams = 200
	p := openPlatform(t, sqlite(t))
	r := p.start(t, "one", "", hub.Timing{})
	a := p.register(t, "a")
	p.join(t, a, r.address, data, tunnel.Timing{})
	before := inUse()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range streams {
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://any.test/app-proxy/"+strconv.Itoa(gigabyte), nil)
		response := must.Get(r.Transport(a.ID).RoundTrip(request))(t)
		defer response.Body.Close()
		must.Get(io.ReadFull(response.Body, make([]byte, 1)))(t)
	}
	// What is stalled is kept; what buffers were on their way there is not.
	var kept int64
	programs.Until(t, "the streams are full", func() bool {
		last := kept
		kept = inUse() - before
		return kept > streams*200<<10 && kept-last < 1<<20
	})
	t.Logf("%d MiB of memory for %d stalled streams at both ends", kept>>20, streams)
	if kept > streams<<20 {
		t.Errorf("%d MiB of memory", kept>>20)
	}
	var others sync.WaitGroup
	slowest := make([]time.Duration, 20)
	for i := range slowest {
		others.Go(func() {
			for range 5 {
				began := time.Now()
				text, err := ask(ctx, r, a.ID, "/app-proxy/500000")
				if err != nil || len(text) != 500000 {
					t.Errorf("%d bytes, %v", len(text), err)
				}
				slowest[i] = max(slowest[i], time.Since(began))
			}
		})
	}
	others.Wait()
	for _, took := range slowest {
		if took > 20*time.Second {
			t.Errorf("a request beside stalled ones took %v", took)
		}
	}
}

// inUse is the memory that is in use after a collection.
func inUse() int64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// 200 requests at a time get what each requested.
func TestParallelStreams(t *testing.T) {
	const streams = 200
	p := openPlatform(t, sqlite(t))
	r := p.start(t, "one", "", hub.Timing{})
	a := p.register(t, "a")
	var arrived sync.WaitGroup
	arrived.Add(streams)
	p.join(t, a, r.address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Done()
		arrived.Wait() // all of them are under way
		_, _ = io.WriteString(w, r.URL.Path)
	}), tunnel.Timing{})
	var asking sync.WaitGroup
	for i := range streams {
		asking.Go(func() {
			path := fmt.Sprint("/app-proxy/", i)
			if text, err := ask(t.Context(), r, a.ID, path); err != nil || text != path {
				t.Errorf("%q, %v; want %q", text, err, path)
			}
		})
	}
	asking.Wait()
}

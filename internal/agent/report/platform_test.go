package report_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// patience bounds what a test waits for.
const patience = 60 * time.Second

// where is an Application's place.
type where struct{ namespace, name string }

// database is what a platform keeps of a runtime's reports.
type database struct {
	stream    string
	stored    int64
	mark      int64
	resyncing bool
	applied   int // events that were stored, each once
	apps      map[where]*platformv1.Application
	syncs     []*platformv1.ReportedSync // of all events
	marks     map[where]int64
}

func newDatabase() database {
	return database{apps: map[where]*platformv1.Application{}, marks: map[where]int64{}}
}

func (d database) copy() database {
	d.apps, d.marks = maps.Clone(d.apps), maps.Clone(d.marks)
	return d
}

// platform stores what agents report, as AgentService promises. Its front cuts
// connections: before anything is stored, or before the response.
type platform struct {
	platformv1connect.UnimplementedAgentServiceHandler
	server *httptest.Server

	mu      sync.Mutex
	data    database
	changed chan struct{}
	// cutBefore and cutAfter are chances in percent; away refuses everything.
	cutBefore, cutAfter int
	away                bool
	dice                *rand.Rand

	batches, resyncs int
	gzipped          bool
}

func newPlatform(t *testing.T) *platform {
	t.Helper()
	p := &platform{data: newDatabase(), changed: make(chan struct{}), dice: rand.New(rand.NewPCG(1, 2))}
	path, handler := platformv1connect.NewAgentServiceHandler(p, connect.WithReadMaxBytes(8<<20))
	mux := http.NewServeMux()
	mux.Handle(path, p.front(handler))
	p.server = httptest.NewServer(mux)
	t.Cleanup(p.server.Close)
	return p
}

func (p *platform) client() platformv1connect.AgentServiceClient {
	return platformv1connect.NewAgentServiceClient(p.server.Client(), p.server.URL, connect.WithSendGzip())
}

// front cuts connections.
func (p *platform) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		before, after := p.away || p.dice.IntN(100) < p.cutBefore, p.dice.IntN(100) < p.cutAfter
		p.gzipped = p.gzipped || r.Header.Get("Content-Encoding") == "gzip" || r.Header.Get("Connect-Content-Encoding") == "gzip"
		p.mu.Unlock()
		if before {
			panic(http.ErrAbortHandler)
		}
		if after {
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// Report stores a batch.
func (p *platform) Report(_ context.Context, request *connect.Request[platformv1.ReportRequest]) (*connect.Response[platformv1.ReportResponse], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		close(p.changed)
		p.changed = make(chan struct{})
	}()
	p.batches++
	gap := p.data.apply(request.Msg)
	for _, event := range request.Msg.GetEvents() {
		if event.GetResyncBegin() {
			p.resyncs++
		}
	}
	return connect.NewResponse(&platformv1.ReportResponse{Stored: p.data.stored, Resync: gap}), nil
}

// apply stores each event once. A stream begins with a resync.
func (d *database) apply(given *platformv1.ReportRequest) (gap bool) {
	if given.GetStream() != d.stream && len(given.GetEvents()) == 0 {
		return true
	}
	for _, event := range given.GetEvents() {
		number := event.GetNumber()
		switch {
		case event.GetResyncBegin() && given.GetStream() != d.stream:
			d.stream, d.stored = given.GetStream(), number-1
		case given.GetStream() != d.stream:
			return true
		case number <= d.stored:
			continue
		case number != d.stored+1:
			return true
		}
		d.stored = number
		d.applied++
		d.store(event)
	}
	return false
}

func (d *database) store(event *platformv1.ReportEvent) {
	switch told := event.GetEvent().(type) {
	case *platformv1.ReportEvent_ResyncBegin:
		d.resyncing = true
		d.mark++
	case *platformv1.ReportEvent_ResyncEnd:
		d.resyncing = false
		for at, mark := range d.marks {
			if mark != d.mark {
				delete(d.apps, at)
				delete(d.marks, at)
			}
		}
	case *platformv1.ReportEvent_Application:
		at := where{told.Application.GetNamespace(), told.Application.GetName()}
		d.apps[at], d.marks[at] = told.Application, d.mark
		d.syncs = append(d.syncs, told.Application.GetSyncs()...)
	case *platformv1.ReportEvent_Deleted:
		at := where{told.Deleted.GetNamespace(), told.Deleted.GetName()}
		if known := d.apps[at]; known != nil && known.GetUid() == told.Deleted.GetUid() {
			delete(d.apps, at)
			delete(d.marks, at)
		}
	}
}

// difference describes how the platform differs from the cluster.
func (p *platform) difference(c *cluster) string {
	want := c.messages()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.data.resyncing {
		return "a resync is under way"
	}
	for at, app := range want {
		got := p.data.apps[at]
		if got == nil {
			return fmt.Sprintf("%v is missing", at)
		}
		got = proto.CloneOf(got)
		// Merged events have more syncs than the last state.
		got.SeenAt, app.SeenAt, got.Syncs, app.Syncs = nil, nil, nil, nil
		if !proto.Equal(got, app) {
			return fmt.Sprintf("%v is %v and not %v", at, boundedText(got), boundedText(app))
		}
	}
	for at := range p.data.apps {
		if want[at] == nil {
			return fmt.Sprintf("%v is gone", at)
		}
	}
	return ""
}

func boundedText(message proto.Message) string {
	content, _ := json.Marshal(message)
	return string(content)
}

// await waits until the platform has what the cluster has.
func (p *platform) await(t *testing.T, c *cluster) {
	t.Helper()
	p.awaitThat(t, func() string { return p.difference(c) })
}

// awaitThat waits until nothing is missing.
func (p *platform) awaitThat(t *testing.T, missing func() string) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		lacks := missing()
		if lacks == "" {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatal(lacks)
		}
	}
}

// change changes the platform.
func (p *platform) change(how func(*platform)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how(p)
}

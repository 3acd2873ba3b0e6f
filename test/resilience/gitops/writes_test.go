package gitops

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/must"
)

// maxRecordedBody bounds the body of a request that is read by the record.
const maxRecordedBody = 1 << 20

// appInPath finds the Application that an object belongs to.
var appInPath = regexp.MustCompile(`/(app-\d{3})(-|/|$)`)

// write is a write of an agent for an Application.
type write struct {
	agent, app, what string
	began, ended     time.Time
}

// release is when an agent has let go of Applications: it acknowledged a generation of the
// division, or its Lease was deleted. It is about what the agent began before.
type release struct {
	agent        string
	began        time.Time
	acknowledged bool
}

// writeRecord is what agents write, seen by a proxy between each of them and the API
// server.
type writeRecord struct {
	mu       sync.Mutex
	writes   []write
	releases []release
	// holders are agents by the names of their Leases, and acknowledged the generations in
	// these.
	holders      map[string]string
	acknowledged map[string]string
	// moved is how often each Application moved.
	moved map[string]int
}

// proxy serves the API server to an agent, without credentials on loopback. It returns its
// address.
func (r *writeRecord) proxy(t *testing.T, config *rest.Config, agent string) string {
	t.Helper()
	server := httptest.NewServer(r.forward(t, config, agent))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

// forward passes requests of an agent to an API server, and records its writes.
func (r *writeRecord) forward(t *testing.T, config *rest.Config, agent string) http.Handler {
	t.Helper()
	target := must.Get(url.Parse(config.Host))(t)
	transport := must.Get(rest.TransportFor(config))(t)
	forward := &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(target)
			request.Out.Host = ""
			request.Out.Header.Del("Authorization") // the transport has the credentials
		},
		Transport: transport, FlushInterval: -1,
		// An agent that was killed leaves requests behind.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodGet || request.URL.Query().Get("dryRun") != "" {
			forward.ServeHTTP(w, request)
			return
		}
		body, _ := io.ReadAll(io.LimitReader(request.Body, maxRecordedBody))
		request.Body = io.NopCloser(bytes.NewReader(body))
		response := &statusRecorder{ResponseWriter: w}
		began := time.Now()
		forward.ServeHTTP(response, request)
		if response.code < http.StatusBadRequest {
			r.note(agent, request, body, began, time.Now())
		}
	})
}

// statusRecorder keeps the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	code int
}

// WriteHeader keeps the status.
func (s *statusRecorder) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets the proxy flush.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// note records a write that the API server took.
func (r *writeRecord) note(agent string, request *http.Request, body []byte, began, ended time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Contains(request.URL.Path, "/leases") {
		r.noteLease(agent, request, body, began)
		return
	}
	if strings.Contains(request.URL.Path, "/events") {
		return
	}
	if found := appInPath.FindStringSubmatch(request.URL.Path); found != nil {
		r.writes = append(r.writes, write{agent, found[1], request.Method + " " + request.URL.Path, began, ended})
	}
}

// noteLease records a Lease of the division. The lock is held.
func (r *writeRecord) noteLease(agent string, request *http.Request, body []byte, began time.Time) {
	if r.holders == nil {
		r.holders, r.acknowledged = map[string]string{}, map[string]string{}
	}
	_, name, _ := strings.Cut(request.URL.Path, "/leases/")
	if request.Method == http.MethodDelete {
		if holder := r.holders[name]; holder != "" {
			r.releases = append(r.releases, release{agent: holder, began: began})
		}
		return
	}
	// The agents send protobuf.
	decoded, _, _ := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	lease, ok := decoded.(*coordinationv1.Lease)
	if !ok || !strings.Contains(lease.Name, "-member-") {
		return
	}
	r.holders[lease.Name] = agent
	if now := lease.Annotations["slipway.dev/division-acknowledged"]; r.acknowledged[lease.Name] != now {
		r.acknowledged[lease.Name] = now
		r.releases = append(r.releases, release{agent: agent, began: began, acknowledged: true})
	}
}

// check returns what is wrong: a write of an agent for an Application that another one wrote
// for, which had not let go of it since.
func (r *writeRecord) check() (problems []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.writes, func(a, b write) int { return a.began.Compare(b.began) })
	last := map[string]write{}
	r.moved = map[string]int{}
	for _, now := range r.writes {
		before, known := last[now.app]
		if known && before.agent != now.agent {
			r.moved[now.app]++
			if !r.released(before, now) {
				problems = append(problems, fmt.Sprintf("%s: %s %s at %s, and %s %s at %s", now.app,
					before.agent, before.what, before.began.Format(time.StampMicro), now.agent, now.what, now.began.Format(time.StampMicro)))
			}
		}
		last[now.app] = now
	}
	return problems
}

// released reports whether an agent let go between its write and that of another one. What it
// acknowledges comes after the end of its writes.
func (r *writeRecord) released(before, after write) bool {
	return slices.ContainsFunc(r.releases, func(one release) bool {
		return one.agent == before.agent && one.began.After(before.began) && one.began.Before(after.began) &&
			(!one.acknowledged || !before.ended.After(after.began))
	})
}

// count is how many writes there were, and how often each Application moved.
func (r *writeRecord) count() (writes int, moved map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.writes), maps.Clone(r.moved)
}

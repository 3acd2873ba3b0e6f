package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/bench/ground"
)

// Addresses of the agent's servers. They are fixed, because the private network
// has no other listeners.
const (
	adminAddress   = "127.0.0.1:8091"
	healthAddress  = "127.0.0.1:8083"
	webhookAddress = "127.0.0.1:8084"
	// maxPage bounds the body of one response: a metrics page or a profile.
	maxPage = 64 << 20
)

// agent is the agent process under test. follow runs concurrently with the
// phases, so mu guards the memory figures; the other fields do not change.
type agent struct {
	*programs.Process
	client  *http.Client
	cluster int // process of the API server

	mu       sync.Mutex
	most     int64 // memory of the agent and its workers
	resident int64 // the same without regard to what they share
}

// startAgent starts an agent for a cluster and returns before it is ready. Its
// source cache is below dir, so every size starts with an empty one.
func startAgent(s *settings, c *ground.Cluster, dir string) (*agent, error) {
	process, err := c.StartSlipway(s.Slipway, filepath.Join(dir, "agent.log"), s.Environment, append([]string{"agent",
		"--log.format=json", "--admin.address=" + adminAddress, "--health.address=" + healthAddress,
		"--webhooks.address=" + webhookAddress, "--applications.controlNamespace=" + controlNamespace,
		"--sources.cacheDir=" + filepath.Join(dir, "cache")}, s.Options...))
	return &agent{Process: process, client: &http.Client{Timeout: time.Minute}, cluster: c.PID()}, err
}

// ready is the readiness probe of the agent; it returns nil when /readyz
// returns 200.
func (a *agent) ready(ctx context.Context) error {
	_, err := a.fetch(ctx, "http://"+healthAddress+"/readyz")
	return err
}

// fetch requests a URL of the agent and returns the body.
func (a *agent) fetch(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	return a.send(request)
}

// send sends a request and returns the body. Any status but 200 is an error
// with the body as its text.
func (a *agent) send(request *http.Request) ([]byte, error) {
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}

// notify sends a signed push event as GitHub does, so that the agent does not
// wait for its polling interval.
func (a *agent) notify(ctx context.Context, repository, commit string) error {
	body, err := json.Marshal(map[string]any{
		"ref": "refs/heads/main", "after": commit,
		"repository": map[string]any{"full_name": "bench/fleet", "clone_url": repository, "html_url": repository},
	})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+webhookAddress+"/webhooks", bytes.NewReader(body))
	if err != nil {
		return err
	}
	signature := hmac.New(sha256.New, []byte(webhookSecret))
	signature.Write(body)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-GitHub-Event", "push")
	// GitHub sends a unique ID with each delivery; the commit is unique here.
	request.Header.Set("X-GitHub-Delivery", commit)
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(signature.Sum(nil)))
	_, err = a.send(request)
	return err
}

// counts is a snapshot of the agent's counters since its start, and of the CPU
// time of all processes. Phases take the difference of two.
type counts struct {
	requests, renders float64
	// kinds are the requests by method and status code, for finding out which
	// ones a regression added.
	kinds map[string]float64
	cpu   processorTime
}

// since returns the difference to an earlier snapshot. It leaves both
// unchanged.
func (c counts) since(before counts) counts {
	kinds := maps.Clone(c.kinds)
	for kind, count := range before.kinds {
		kinds[kind] -= count
	}
	return counts{c.requests - before.requests, c.renders - before.renders, kinds, c.cpu.since(before.cpu)}
}

// String lists the kinds of requests with a nonzero count, in a stable order.
func (c counts) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(c.kinds)) {
		if c.kinds[kind] > 0 {
			parts = append(parts, fmt.Sprintf("%s %.0f", kind, c.kinds[kind]))
		}
	}
	return strings.Join(parts, ", ")
}

// counts reads the agent's metrics and the CPU times. The metrics come first,
// so that the CPU time of serving them falls before the reading.
func (a *agent) counts(ctx context.Context) (counts, error) {
	page, err := a.fetch(ctx, "http://"+healthAddress+"/metrics")
	if err != nil {
		return counts{}, err
	}
	c := counts{kinds: map[string]float64{}}
	for line := range strings.Lines(string(page)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		// Comment lines have no number and are skipped.
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch {
		case strings.HasPrefix(name, "slipway_gitops_api_requests_total"):
			c.requests += number
			// This turns {code="200",method="GET"} into a short label for the
			// progress lines.
			labels := strings.NewReplacer("slipway_gitops_api_requests_total", "", `method=`, "", `code=`, "", `"`, "", "{", "", "}", "", ",", " ").Replace(name)
			c.kinds[labels] += number
		case strings.HasPrefix(name, "slipway_gitops_renders_total"):
			c.renders += number
		}
	}
	c.cpu, err = readProcessorTime(a.PID(), a.cluster)
	return c, err
}

// memory returns the proportional memory of the agent and its workers.
func (a *agent) memory() (int64, error) { return a.sum(programs.ProportionalMemory) }

// sum adds up a memory figure of the agent and its worker processes. A worker
// that ends meanwhile counts as zero.
func (a *agent) sum(memory func(pid int) (int64, error)) (int64, error) {
	total, err := memory(a.PID())
	if err != nil {
		return 0, err
	}
	workers, err := programs.Children(a.PID())
	if err != nil {
		return 0, err
	}
	for _, pid := range workers {
		if worker, err := memory(pid); err == nil { // it may have ended
			total += worker
		}
	}
	return total, nil
}

// follow samples the memory every 100 milliseconds until ctx is done and keeps
// the peak. The kernel's work for an exact figure takes CPU time from the
// agent, so follow reads the cheap resident size and takes the exact one only
// after growth of more than step.
func (a *agent) follow(ctx context.Context) error {
	const step = 1 << 20
	for {
		now, err := a.sum(programs.ResidentMemory)
		if err != nil {
			return err
		}
		a.mu.Lock()
		grown := now > a.resident+step
		if grown {
			a.resident = now
		}
		a.mu.Unlock()
		if grown {
			if err := a.look(); err != nil {
				return err
			}
		}
		if err := ground.Wait(ctx, 100*time.Millisecond); err != nil {
			return nil
		}
	}
}

// look takes the exact memory figure and raises the peak if it is higher.
func (a *agent) look() error {
	now, err := a.memory()
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most = max(a.most, now)
	return nil
}

// peak returns the peak since the last call and resets it, so that each phase
// has a peak of its own. It takes a sample first, because follow may have
// skipped small growth.
func (a *agent) peak() (int64, error) {
	if err := a.look(); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	most := a.most
	a.most, a.resident = 0, 0
	return most, nil
}

// profile records a CPU profile of the agent while a phase runs. It does
// nothing if folder is empty. finish waits for the file; the capacity of the
// channel lets the goroutine end even if finish is not called.
func (a *agent) profile(ctx context.Context, folder, name string, length time.Duration) (finish func() error) {
	if folder == "" {
		return func() error { return nil }
	}
	ended := make(chan error, 1)
	go func() {
		page := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", adminAddress, max(1, int(length.Seconds())))
		text, err := a.fetch(ctx, page)
		ended <- errors.Join(err, keep(folder, name+".cpu.pprof", text))
	}()
	return func() error { return <-ended }
}

// heap writes a heap profile after a garbage collection. It does nothing if
// folder is empty.
func (a *agent) heap(ctx context.Context, folder, name string) error {
	if folder == "" {
		return nil
	}
	text, err := a.fetch(ctx, "http://"+adminAddress+"/debug/pprof/heap?gc=1")
	return errors.Join(err, keep(folder, name+".heap.pprof", text))
}

// keep writes a profile, creating the folder as needed.
func keep(folder, name string, text []byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name), text, 0o644)
}

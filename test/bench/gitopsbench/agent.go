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
	"maps"
	"net/http"
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
)

// agent is the agent process under test, with those that divide the Applications with it.
// follow runs concurrently with the phases, so mu guards the memory figures; the other fields
// do not change.
type agent struct {
	*programs.Process
	others  []*programs.Process
	client  *http.Client
	cluster int // process of the API server

	mu       sync.Mutex
	most     int64 // memory of the agent and its workers
	resident int64 // the same without regard to what they share
}

// startAgent starts an agent for a cluster, or several that divide the Applications, and
// returns before they are ready. Its source cache is below dir, so every run starts with
// an empty one.
func startAgent(s *settings, agents int, c *ground.Cluster, dir string) (*agent, error) {
	start := func(i int) (*programs.Process, error) { return startOne(s, c, dir, i, agents > 1) }
	process, err := start(0)
	a := &agent{Process: process, client: &http.Client{Timeout: time.Minute}, cluster: c.PID()}
	for i := 1; i < agents && err == nil; i++ {
		var other *programs.Process
		if other, err = start(i); err == nil {
			a.others = append(a.others, other)
		}
	}
	if err != nil && process != nil {
		err = errors.Join(err, a.endAll())
	}
	return a, err
}

// startOne starts one of several agents.
func startOne(s *settings, c *ground.Cluster, dir string, i int, divide bool) (*programs.Process, error) {
	options := []string{"agent", "--outbound.allow=127.0.0.1,::1",
		"--log.format=json", "--admin.address=" + of(i, adminAddress), "--health.address=" + of(i, healthAddress),
		"--webhooks.address=" + of(i, webhookAddress), "--applications.controlNamespace=" + controlNamespace,
		"--sources.cacheDir=" + filepath.Join(dir, fmt.Sprint("cache-", i))}
	if divide {
		options = append(options, "--applications.divide=true")
	}
	return c.StartSlipway(s.Slipway, filepath.Join(dir, fmt.Sprintf("agent-%d.log", i)), s.Environment, append(options, s.Options...))
}

// of is an address of the first agent, with another last octet for a further one.
func of(i int, address string) string {
	return strings.Replace(address, "127.0.0.1", fmt.Sprint("127.0.0.", 1+i), 1)
}

// endAll ends all agents.
func (a *agent) endAll() error {
	err := a.End(nil)
	for _, other := range a.others {
		err = errors.Join(err, other.End(nil))
	}
	return err
}

// pids are the processes of all agents.
func (a *agent) pids() []int {
	pids := []int{a.PID()}
	for _, other := range a.others {
		pids = append(pids, other.PID())
	}
	return pids
}

// ready is the readiness probe of the agents; it returns nil when /readyz of each returns 200,
// and each sees the others.
func (a *agent) ready(ctx context.Context) error {
	for i := range a.pids() {
		if _, err := programs.Fetch(ctx, "http://"+of(i, healthAddress)+"/readyz"); err != nil {
			return err
		}
		page, err := programs.Fetch(ctx, "http://"+of(i, healthAddress)+"/metrics")
		if err != nil {
			return err
		}
		if members, _, err := programs.Metric(page, "slipway_agent_division_members", ""); len(a.others) > 0 && (err != nil || int(members) != 1+len(a.others)) {
			return fmt.Errorf("an agent sees %.0f that divide the Applications", members)
		}
	}
	return nil
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
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the agent does not take the event: %s", response.Status)
	}
	return nil
}

// counts is a snapshot of the agent's counters since its start, and of the CPU
// time of all processes. Phases take the difference of two.
type counts struct {
	requests, renders float64
	// kinds are the requests by status code, method and resource, for finding out which
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

// counts reads the metrics of the agents and the CPU times. The metrics come first,
// so that the CPU time of serving them falls before the reading.
func (a *agent) counts(ctx context.Context) (counts, error) {
	c := counts{kinds: map[string]float64{}}
	for i := range a.pids() {
		page, err := programs.Fetch(ctx, "http://"+of(i, healthAddress)+"/metrics")
		if err != nil {
			return counts{}, err
		}
		c.add(page)
	}
	var err error
	c.cpu, err = readProcessorTime(a.pids(), a.cluster)
	return c, err
}

// add counts what a page of metrics has.
func (c *counts) add(page string) {
	for line := range strings.Lines(page) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		// Comment lines have no number and are skipped.
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch {
		case strings.HasPrefix(name, "slipway_gitops_api_requests_total"):
			c.requests += number
			// This turns {code="200",method="GET",resource="pods"} into a short label for
			// the progress lines.
			labels := strings.NewReplacer("slipway_gitops_api_requests_total", "", `method=`, "", `code=`, "", `resource=`, "", `"`, "", "{", "", "}", "", ",", " ").Replace(name)
			c.kinds[labels] += number
		case strings.HasPrefix(name, "slipway_gitops_renders_total"):
			c.renders += number
		}
	}
}

// memory returns the proportional memory of the agents and their workers.
func (a *agent) memory() (int64, error) { return a.sum(programs.ProportionalMemory) }

// sum adds up a figure of the agents and their workers.
func (a *agent) sum(figure func(pid int) (int64, error)) (int64, error) {
	var sum int64
	for _, pid := range a.pids() {
		one, err := programs.WithChildren(pid, figure)
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
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

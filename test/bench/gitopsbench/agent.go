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
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

// The servers of the agent. Nobody else is in this network.
const (
	adminAddress   = "127.0.0.1:8091"
	healthAddress  = "127.0.0.1:8083"
	webhookAddress = "127.0.0.1:8084"
	// maxPage bounds what is taken for a page or a profile.
	maxPage = 64 << 20
)

// agent is the process that is measured.
type agent struct {
	*ground.Child
	client  *http.Client
	cluster int // process of the API server

	mu       sync.Mutex
	most     int64 // memory of the agent and its workers
	resident int64 // the same without regard to what they share
}

// startAgent starts an agent for a cluster. It is not ready yet.
func startAgent(s *settings, c *ground.Cluster, dir string) (*agent, error) {
	if _, err := os.Stat(s.slipway); err != nil {
		return nil, fmt.Errorf("the program is missing: run make build-slipway, or name it with -slipway: %w", err)
	}
	command := exec.Command(s.slipway, append([]string{"agent",
		"--log.format=json", "--admin.address=" + adminAddress, "--health.address=" + healthAddress,
		"--webhooks.address=" + webhookAddress, "--applications.controlNamespace=" + controlNamespace,
		"--sources.cacheDir=" + filepath.Join(dir, "cache")}, s.options...)...)
	command.Env = append([]string{"KUBECONFIG=" + c.Kubeconfig}, s.environment...)
	process, err := ground.StartChild("the agent", filepath.Join(dir, "agent.log"), command)
	return &agent{Child: process, client: &http.Client{Timeout: time.Minute}, cluster: c.PID()}, err
}

// ready reports whether the agent says that it is.
func (a *agent) ready(ctx context.Context) error {
	_, err := a.fetch(ctx, "http://"+healthAddress+"/readyz")
	return err
}

func (a *agent) fetch(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	return a.send(request)
}

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

// notify sends the webhook of a push, as GitHub does.
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
	request.Header.Set("X-GitHub-Delivery", commit)
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(signature.Sum(nil)))
	_, err = a.send(request)
	return err
}

// counts are what the agent has counted since its start, and the processor time
// that everybody has used.
type counts struct {
	requests, renders float64
	// kinds are the requests by method and status code.
	kinds map[string]float64
	cpu   processorTime
}

func (c counts) since(before counts) counts {
	kinds := maps.Clone(c.kinds)
	for kind, count := range before.kinds {
		kinds[kind] -= count
	}
	return counts{c.requests - before.requests, c.renders - before.renders, kinds, c.cpu.since(before.cpu)}
}

// String lists the requests that there were, by kind.
func (c counts) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(c.kinds)) {
		if c.kinds[kind] > 0 {
			parts = append(parts, fmt.Sprintf("%s %.0f", kind, c.kinds[kind]))
		}
	}
	return strings.Join(parts, ", ")
}

func (a *agent) counts(ctx context.Context) (counts, error) {
	page, err := a.fetch(ctx, "http://"+healthAddress+"/metrics")
	if err != nil {
		return counts{}, err
	}
	c := counts{kinds: map[string]float64{}}
	for line := range strings.Lines(string(page)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch {
		case strings.HasPrefix(name, "slipway_gitops_api_requests_total"):
			c.requests += number
			labels := strings.NewReplacer("slipway_gitops_api_requests_total", "", `method=`, "", `code=`, "", `"`, "", "{", "", "}", "", ",", " ").Replace(name)
			c.kinds[labels] += number
		case strings.HasPrefix(name, "slipway_gitops_renders_total"):
			c.renders += number
		}
	}
	c.cpu, err = readProcessorTime(a.PID(), a.cluster)
	return c, err
}

// memory is what the agent and its workers have in memory now.
func (a *agent) memory() (int64, error) { return a.sum(ground.ProportionalMemory) }

// sum adds up what is said of the memory of the agent and of its workers.
func (a *agent) sum(memory func(pid int) (int64, error)) (int64, error) {
	total, err := memory(a.PID())
	if err != nil {
		return 0, err
	}
	workers, err := ground.Children(a.PID())
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

// follow reads the memory again and again, and keeps the most. The processor
// time for that is taken from the agent, so it looks closely only where there is
// more than there was, by a step that does not matter.
func (a *agent) follow(ctx context.Context) error {
	const step = 1 << 20
	for {
		now, err := a.sum(ground.ResidentMemory)
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
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return nil
		}
	}
}

// look keeps what is in memory now if it is the most.
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

// peak is the most memory since the last call.
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

// profile records what the agent does meanwhile, where profiles are asked for.
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

// heap writes a profile of the memory in use, where profiles are asked for.
func (a *agent) heap(ctx context.Context, folder, name string) error {
	if folder == "" {
		return nil
	}
	text, err := a.fetch(ctx, "http://"+adminAddress+"/debug/pprof/heap?gc=1")
	return errors.Join(err, keep(folder, name+".heap.pprof", text))
}

func keep(folder, name string, text []byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name), text, 0o644)
}

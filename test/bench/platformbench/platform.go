package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
	"slipway.dev/slipway/test/bench/ground"
)

// Addresses of the platform in the private network.
const (
	platformAddress = "127.0.0.1:8086"
	platformURL     = "http://" + platformAddress
	healthAddress   = "127.0.0.1:8087"
	startTimeout    = time.Minute
)

// platform is the process under measurement, with a key of its admin.
type platform struct {
	settings *settings
	dir      string
	process  *programs.Process
	key      string
	client   *http.Client
}

// startPlatform starts a platform with an empty database.
func startPlatform(ctx context.Context, s *settings, dir string) (*platform, error) {
	if _, err := os.Stat(s.slipway); err != nil {
		return nil, fmt.Errorf("the program is missing: run make build-slipway, or name it with -slipway: %w", err)
	}
	p := &platform{settings: s, dir: dir}
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, s.slipway, append([]string{"platform", "create-key", "admin@localhost", name, "--days=1"}, p.storage()...)...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir()}
	var complaint bytes.Buffer
	command.Stderr = &complaint
	key, err := command.Output()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create a key: %w: %s", err, &complaint), p.process.End(nil))
	}
	p.key = string(bytes.TrimSpace(key))
	p.client = &http.Client{Transport: programs.Bearer(p.key, &http.Transport{MaxIdleConnsPerHost: concurrency})}
	return p, nil
}

// storage returns the options of the database. Options of the user come last,
// so that they win.
func (p *platform) storage() []string {
	return append([]string{"--state.dir=" + filepath.Join(p.dir, "state")}, p.settings.options...)
}

// start starts the process and waits until it is ready.
func (p *platform) start(ctx context.Context) error {
	words := append([]string{"platform", "--server.address=" + platformAddress, "--health.address=" + healthAddress, "--admin.address=127.0.0.1:0", "--log.level=warn"}, p.storage()...)
	command := exec.Command(p.settings.slipway, words...)
	command.Env = p.settings.environment
	process, err := ground.StartProgram("slipway platform", filepath.Join(p.dir, "platform.log"), command)
	if err != nil {
		return err
	}
	p.process = process
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return process.Await(ctx, 20*time.Millisecond, func(ctx context.Context) error {
		_, err := programs.Fetch(ctx, "http://"+healthAddress+"/readyz")
		return err
	})
}

func (p *platform) runtimes() platformv1connect.RuntimeServiceClient {
	return platformv1connect.NewRuntimeServiceClient(p.client, platformURL)
}

func (p *platform) applications() platformv1connect.ApplicationServiceClient {
	return platformv1connect.NewApplicationServiceClient(p.client, platformURL)
}

// usage is the CPU time and memory of the platform.
func (p *platform) usage() (cpu time.Duration, memory programs.Memory, err error) {
	if cpu, err = programs.CPUTime(p.process.PID()); err != nil {
		return 0, memory, err
	}
	memory, err = programs.ReadMemory(p.process.PID())
	return cpu, memory, err
}

package report_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/report"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// childFolder makes the test binary a process that reports.
const childFolder = "SLIPWAY_TEST_REPORT_FOLDER"

func TestMain(m *testing.M) {
	if folder := os.Getenv(childFolder); folder != "" {
		if err := runChild(folder, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runChild reports to a platform what a cluster has, and hears of changes on its
// standard input.
func runChild(folder, platformURL, clusterURL string) error {
	list := func(context.Context) ([]*v1alpha1.Application, error) {
		answer, err := http.Get(clusterURL)
		if err != nil {
			return nil, err
		}
		defer func() { _ = answer.Body.Close() }()
		var apps []*v1alpha1.Application
		return apps, json.NewDecoder(answer.Body).Decode(&apps)
	}
	options := report.Options{
		Folder: folder, Runtime: runtimeName, List: list, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Client: platformv1connect.NewAgentServiceClient(http.DefaultClient, platformURL, connect.WithSendGzip()),
	}
	report.Hasten(&options, 20*time.Millisecond)
	reporter, err := report.New(options)
	if err != nil {
		return err
	}
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			app := &v1alpha1.Application{}
			switch err := json.Unmarshal(lines.Bytes(), app); {
			case err != nil:
				panic(err)
			case app.DeletionTimestamp != nil:
				reporter.Deleted(report.Ref{Namespace: app.Namespace, Name: app.Name, UID: string(app.UID)})
			default:
				reporter.Changed(app)
			}
		}
		os.Exit(0)
	}()
	return reporter.Run(context.Background())
}

// TestKilled: a process that is killed at any point goes on where it was, with no
// more resyncs than processes.
func TestKilled(t *testing.T) {
	p, c := newPlatform(t), newCluster()
	p.change(func(p *platform) { p.cutBefore, p.cutAfter = 20, 20 })
	apps := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		all, _ := c.list(t.Context())
		_ = json.NewEncoder(w).Encode(all)
	}))
	defer apps.Close()
	folder, dice := t.TempDir(), rand.New(rand.NewPCG(3, 4))
	const lives = 12
	for life := range lives {
		// Changes without an event: the next process finds them in its list.
		for range 1 + dice.IntN(20) {
			c.set(fmt.Sprint("app-", dice.IntN(10)), "Healthy")
		}
		c.set("newest", fmt.Sprint("life ", life))
		command := exec.Command(os.Args[0], p.server.URL, apps.URL)
		command.Env = append(os.Environ(), childFolder+"="+folder)
		command.Stderr = os.Stderr
		input := must.Get(command.StdinPipe())(t)
		must.Do(t, command.Start())
		changes := json.NewEncoder(input)
		events, _ := p.told()
		for range 1 + dice.IntN(40) {
			_ = changes.Encode(c.set(fmt.Sprint("app-", dice.IntN(10)), "Healthy"))
		}
		if life == lives-1 {
			p.await(t, c)
		} else {
			// Killed while it talks.
			p.awaitThat(t, func() string {
				if now, _ := p.told(); now == events {
					return "the process has not told anything"
				}
				return ""
			})
		}
		_ = command.Process.Kill()
		_ = command.Wait()
	}
	if _, resyncs := p.told(); resyncs > lives {
		t.Errorf("%d resyncs in %d lives", resyncs, lives)
	}
}

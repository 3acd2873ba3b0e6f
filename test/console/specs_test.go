package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/install/handover"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/identity/oidctest"
	"slipway.dev/slipway/internal/programs"
)

// stallTimeout bounds the time between two lines of Playwright's log. It bounds
// progress and not the whole suite, which takes many times longer on a busy
// machine; each spec has a timeout of its own in playwright.config.ts.
const stallTimeout = 5 * time.Minute

// report is what Playwright's JSON reporter writes, as far as it is used.
type report struct {
	Suites []reportSuite
	Errors []struct{ Message string }
}

type reportSuite struct {
	Title  string
	File   string
	Specs  []reportSpec
	Suites []reportSuite
}

type reportSpec struct {
	Title string
	OK    bool
	Tests []struct {
		Status  string
		Results []struct {
			Status   string
			Duration int64
			Errors   []struct{ Message string }
			// Stdout is what the spec printed: measurements.
			Stdout      []struct{ Text string }
			Attachments []struct{ Name, Path string }
		}
	}
}

// runSpecs runs Playwright, does what its specs ask for, and reports each.
func (w *world) runSpecs(t *testing.T) {
	t.Helper()
	artefacts, err := filepath.Abs(filepath.Join(root, "bin", "console-test"))
	must.Do(t, err)
	must.Do(t, errors.Join(os.RemoveAll(artefacts), os.MkdirAll(artefacts, 0o755)))
	t.Cleanup(func() { t.Logf("screenshots and traces are in %s", artefacts) })
	if os.Getenv("CONSOLE_HOLD") == "1" {
		w.hold(t, artefacts)
		return
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	words := []string{filepath.Join("node_modules", "@playwright", "test", "cli.js"), "test"}
	if chosen := os.Getenv("CONSOLE_SPECS"); chosen != "" {
		words = append(words, strings.Fields(chosen)...)
	}
	playwright := exec.CommandContext(ctx, "node", words...)
	playwright.Dir = filepath.Join(root, "web")
	playwright.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + os.TempDir()}, w.environment(artefacts)...)
	log := must.Get(os.Create(filepath.Join(artefacts, "playwright.log")))(t)
	defer log.Close()
	progress := watchProgress(log, func() { cancel(fmt.Errorf("no spec began or ended for %s", stallTimeout)) })
	defer progress.stop()
	playwright.Stdout, playwright.Stderr = progress, progress
	process := must.Get(programs.Start("playwright", playwright))(t)
	ended := make(chan error, 1)
	go func() {
		var err error
		if state := process.State(); !state.Success() {
			err = errors.New(state.String())
		}
		if stalled := context.Cause(ctx); stalled != nil {
			err = errors.Join(stalled, err)
		}
		ended <- err
	}()
	w.tell(t, filepath.Join(artefacts, "report.json"), w.obey(t, ended))
}

// progressLog is a log that calls a function when nothing is written to it for
// stallTimeout.
type progressLog struct {
	log   *os.File
	timer *time.Timer
}

func watchProgress(log *os.File, stalled func()) *progressLog {
	return &progressLog{log: log, timer: time.AfterFunc(stallTimeout, stalled)}
}

// Write writes a line and starts the timeout again.
func (p *progressLog) Write(line []byte) (int, error) {
	p.timer.Reset(stallTimeout)
	return p.log.Write(line)
}

func (p *progressLog) stop() { p.timer.Stop() }

// obey does what specs ask for until something has ended.
func (w *world) obey(t *testing.T, ended <-chan error) error {
	t.Helper()
	for {
		select {
		case asked := <-w.commands:
			asked.run(t)
		case err := <-ended:
			return err
		}
	}
}

// hold keeps the world until the test is interrupted, for those who write specs. It
// writes a script that runs specs in the world's network, with the words of Playwright.
func (w *world) hold(t *testing.T, artefacts string) {
	t.Helper()
	var script strings.Builder
	fmt.Fprintf(&script, "#!/bin/sh\n# Runs specs of the console: run.sh [words of playwright test].\ncd %s || exit 1\n", handover.ShellWord(filepath.Join(filepath.Dir(filepath.Dir(artefacts)), "web")))
	fmt.Fprintf(&script, "exec nsenter --net=/proc/%d/ns/net env", os.Getpid())
	for _, variable := range w.environment(artefacts) {
		script.WriteString(" " + handover.ShellWord(variable))
	}
	script.WriteString(" node node_modules/@playwright/test/cli.js test \"$@\"\n")
	file := filepath.Join(artefacts, "run.sh")
	must.Do(t, os.WriteFile(file, []byte(script.String()), 0o700))
	fmt.Fprintf(os.Stderr, "the platform is at %s in the network of process %d; %s runs specs\n", w.url, os.Getpid(), file)
	interrupted, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		<-interrupted.Done()
		ended <- nil
	}()
	_ = w.obey(t, ended) // an interruption is the normal end
}

// environment is what the specs know of the world.
func (w *world) environment(artefacts string) []string {
	documents := ""
	if os.Getenv("CONSOLE_SCREENSHOTS") == "1" {
		documents = filepath.Join(filepath.Dir(filepath.Dir(artefacts)), "docs", "images", "console")
	}
	facts := must.Get(json.Marshal(map[string]any{
		"url": w.url, "control": w.control, "images": filepath.Join(artefacts, "screenshots"), "documents": documents,
		"admin":       map[string]string{"email": adminEmail, "oneTime": w.oneTime, "password": adminPassword},
		"user":        map[string]string{"email": userEmail, "password": userPassword},
		"git":         map[string]string{"api": w.git.provider.APIURL, "shared": w.git.url("team/config") + "/slipway?ref=live", "apps": w.git.url(appsPath), "runtimeToken": runtimeToken, "userToken": userToken},
		"provider":    map[string]string{"issuer": w.provider.URL, "clientID": oidctest.ClientID, "clientSecret": oidctest.ClientSecret},
		"host":        webHost,
		"mesh":        w.mesh.url,
		"target":      w.target,
		"hidden":      applicationSecret,
		"authorities": string(w.git.provider.CA),
	}))(w.t)
	return []string{
		"CONSOLE_WORLD=" + string(facts), "CONSOLE_ARTEFACTS=" + artefacts, "CONSOLE_LONG=" + os.Getenv("CONSOLE_LONG"),
		"PLAYWRIGHT_JSON_OUTPUT_FILE=" + filepath.Join(artefacts, "report.json"), "CI=1",
	}
}

// tell makes a subtest of each spec.
func (w *world) tell(t *testing.T, file string, ended error) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "playwright.log")) // there may be none
		t.Fatalf("Playwright gave no report: %v, %v\n%s", ended, err, log)
	}
	var got report
	must.Do(t, json.Unmarshal(text, &got))
	for _, one := range got.Errors {
		t.Error(one.Message)
	}
	told := 0
	for _, suite := range got.Suites {
		told += suite.tell(t, strings.TrimSuffix(filepath.Base(suite.File), ".e2e.ts"))
	}
	if told == 0 {
		t.Errorf("no spec ran: %v", ended)
	}
	if ended != nil && !t.Failed() {
		t.Errorf("Playwright ended with %v", ended)
	}
}

func (s reportSuite) tell(t *testing.T, prefix string) (told int) {
	t.Helper()
	for _, spec := range s.Specs {
		told++
		t.Run(prefix+"/"+spec.Title, func(t *testing.T) { spec.tell(t) })
	}
	for _, inner := range s.Suites {
		told += inner.tell(t, prefix+"/"+inner.Title)
	}
	return told
}

func (s reportSpec) tell(t *testing.T) {
	t.Helper()
	for _, test := range s.Tests {
		for _, result := range test.Results {
			t.Logf("%s after %v", result.Status, time.Duration(result.Duration)*time.Millisecond)
			for _, line := range result.Stdout {
				t.Log(strings.TrimSpace(line.Text))
			}
			for _, one := range result.Errors {
				t.Error(one.Message)
			}
			if result.Status == "skipped" {
				t.Error("it was skipped, because one before it failed")
			}
			for _, kept := range result.Attachments {
				if kept.Path != "" && result.Status != "passed" {
					t.Logf("%s: %s", kept.Name, kept.Path)
				}
			}
		}
	}
	if !s.OK && !t.Failed() {
		t.Error("it failed")
	}
}

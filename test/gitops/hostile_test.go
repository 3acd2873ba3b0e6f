package gitops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

const (
	// renderMemory is what a render may use, and workerMemory what the worker may
	// have resident with it: the program, and what the limit of the kernel leaves
	// above that of the garbage collector.
	renderMemory = 256 << 20
	workerMemory = renderMemory + 192<<20
	// agentMemory is what the agent may have resident, whatever is in Git.
	agentMemory = 320 << 20
	// renderTime bounds renders that do not end.
	renderTime = 10 * time.Second
)

// testHostile has one agent meet all hostile repositories, one after the other.
func (s *suite) testHostile(t *testing.T) {
	h := &hostility{suite: s, git: gittest.Serve(t), control: s.cluster.Namespace(t), target: s.cluster.Namespace(t)}
	options := s.options(h.control, "--leaderElection.enabled=false", "--render.timeout="+renderTime.String(),
		"--render.memoryLimit="+strconv.Itoa(renderMemory), "--render.workers=2")
	options.TraceFile = filepath.Join(t.TempDir(), "executed")
	agent := agentprocess.Start(t, options)
	stop := agent.FollowMemory()

	h.good = h.git.Repository(t, "good", settings("0"))
	s.application(t, h.control, h.target, "good", mainOf(h.good))
	agentprocess.Await(t, s.applications(h.control), "good", agentprocess.InOrder(h.good.Head(t)))
	for name, archive := range archives.All(t, "hostile/*.txtar") {
		t.Run(name, func(t *testing.T) { h.meet(t, name, archive) })
	}

	peak := stop()
	t.Logf("memory at most: agent %d MiB, one of %d workers %d MiB; a push to another Application live after %s at most",
		peak.Agent>>20, peak.Workers, peak.Worker>>20, h.slowest.Round(time.Millisecond))
	if peak.Agent == 0 || peak.Agent > agentMemory {
		t.Errorf("the agent has had %d bytes, and may have %d", peak.Agent, agentMemory)
	}
	if peak.Worker == 0 || peak.Worker > workerMemory {
		t.Errorf("a worker has had %d bytes, and may have %d", peak.Worker, workerMemory)
	}
	agent.Stop(t)
	s.checkExecuted(t, agent, options.TraceFile)
}

// hostility is an agent that a good repository and many hostile ones use.
type hostility struct {
	*suite
	git             *gittest.Server
	good            *gittest.Repository
	control, target string
	pushes          int
	slowest         time.Duration
}

// meet makes an Application of a hostile repository, pushes to the good one, and
// waits for both.
func (h *hostility) meet(t *testing.T, name string, archive *txtar.Archive) {
	want, source := strings.TrimSpace(take(archive, "want")), strings.TrimSpace(take(archive, "source.yaml"))
	if want == "" {
		t.Fatal("the archive does not say which reason is wanted")
	}
	source = cmp.Or(source, "path: app")
	repository := h.repository(t, name, archive)
	h.refused(t, name, fmt.Sprintf("{repoURL: %q, targetRevision: main, %s}", repository.URL(), source), want)
}

// refused makes an Application of a source, pushes to the good repository, and
// waits until that is live and a condition of the Application has the wanted text.
func (h *hostility) refused(t *testing.T, name, source, want string) {
	t.Helper()
	h.application(t, h.control, h.target, name, source)
	h.push(t)
	app := agentprocess.Await(t, h.applications(h.control), name, func(app *v1alpha1.Application) error {
		for _, condition := range app.Status.Conditions {
			if strings.HasSuffix(condition.Type, "Error") && strings.Contains(condition.Message, want) {
				return nil
			}
		}
		return fmt.Errorf("no condition says %q: %s", want, agentprocess.Reported(app))
	})
	if len(app.Status.Resources) > 0 || app.Status.OperationState != nil {
		t.Errorf("it has resources or an operation: %+v", app.Status)
	}
	t.Logf("it says %s", agentprocess.Reported(app))
	h.remove(t, name)
}

// remove deletes an Application that has shown what it is for: the agent would render it
// again and again, and each time use the processor until the limit ends it.
func (h *hostility) remove(t *testing.T, name string) {
	t.Helper()
	must.Do(t, h.applications(h.control).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// repository makes what Git can hold and an archive cannot.
func (h *hostility) repository(t *testing.T, name string, archive *txtar.Archive) *gittest.Repository {
	t.Helper()
	links, modules, large := take(archive, "links"), take(archive, "submodules"), take(archive, "large")
	content := archives.Texts(archive)
	content["README"] = string(archive.Comment)
	repository := h.git.Repository(t, name, content)
	for line := range strings.Lines(links) {
		path, to, _ := strings.Cut(strings.TrimSpace(line), " -> ")
		repository.Link(t, path, to)
	}
	for _, path := range strings.Fields(modules) {
		repository.Submodule(t, path)
	}
	if path, size, found := strings.Cut(strings.TrimSpace(large), " "); found {
		bytes := must.Get(strconv.ParseInt(size, 10, 64))(t)
		repository.Large(t, path, bytes)
	}
	return repository
}

// push changes the good repository and waits until that is live.
func (h *hostility) push(t *testing.T) {
	t.Helper()
	h.pushes++
	commit := h.good.Commit(t, settings(strconv.Itoa(h.pushes)), "change")
	began := time.Now()
	agentprocess.Await(t, h.applications(h.control), "good", agentprocess.InOrder(commit))
	h.slowest = max(h.slowest, time.Since(began))
}

// checkExecuted: the agent and its workers are the only programs that were
// executed, or that any process tried to execute.
func (s *suite) checkExecuted(t *testing.T, agent *agentprocess.Agent, path string) {
	t.Helper()
	trace := must.Get(awaitTrace(t, agent, path))(t)
	executed := must.Get(agentprocess.Executions(trace))(t)
	workers := 0
	for _, one := range executed {
		switch {
		case one.Program == s.binary && one.Process == strconv.Itoa(agent.PID()):
		case one.Program == "/proc/self/exe" && strings.Contains(one.Arguments, `"render-worker"`):
			workers++
		default:
			t.Errorf("another program was executed: %+v", one)
		}
	}
	t.Logf("%d programs were executed, %d of them workers", len(executed), workers)
	if workers == 0 || workers != len(executed)-1 {
		t.Errorf("the trace is not complete:\n%s", trace)
	}
}

// awaitTrace reads a trace when it has the end of the agent.
func awaitTrace(t *testing.T, agent *agentprocess.Agent, path string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programs.Timeout)
	defer cancel()
	var trace []byte
	err := programs.Await(ctx, func(context.Context) (err error) {
		if trace, err = os.ReadFile(path); err != nil {
			return err
		}
		for line := range strings.Lines(string(trace)) {
			if strings.HasPrefix(line, strconv.Itoa(agent.PID())+" ") && strings.Contains(line, "+++ exited") {
				return nil
			}
		}
		return errors.New("the trace does not tell the end of the agent:\n" + string(trace))
	})
	return string(trace), err
}

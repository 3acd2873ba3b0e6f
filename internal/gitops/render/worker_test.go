package render

import (
	"context"
	"errors"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

func chartRequest(template string) Request {
	store := tree.NewMemory(map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\nversion: 0.1.0\n", "templates/a.yaml": template})
	source := v1alpha1.ApplicationSource{RepoURL: "https://git.example/a.git", Path: "."}
	return Request{App: "example", Inputs: []Input{{Source: source, Store: store}}}
}

const oneObject = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

const endless = `{{ range until 100000 }}{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}{{ end }}`

func testRenderer(t *testing.T, options Options) *Renderer {
	t.Helper()
	r := must.Get(New(options))(t)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// only is the one worker that waits.
func (r *Renderer) only(t *testing.T) *process {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.idle) != 1 || len(r.all) != 1 {
		t.Fatalf("%d workers wait, of %d", len(r.idle), len(r.all))
	}
	return r.idle[0]
}

func (r *Renderer) mustRender(t *testing.T) {
	t.Helper()
	if result, err := r.Render(t.Context(), chartRequest(oneObject)); err != nil || len(result.Objects) != 1 {
		t.Fatal(err)
	}
}

// One worker does one render after the other.
func TestWorkerIsKept(t *testing.T) {
	r := testRenderer(t, Options{Workers: 2})
	r.mustRender(t)
	first := r.only(t)
	r.mustRender(t)
	if _, err := r.Render(t.Context(), chartRequest("{{ fail `no` }}")); err == nil {
		t.Error("no error")
	}
	r.mustRender(t)
	if r.only(t) != first || first.renders != 4 {
		t.Errorf("the worker was replaced, or has done %d renders", first.renders)
	}
}

// A worker that is replaced is gone before the next one can start.
func TestReplacedWorkerIsGone(t *testing.T) {
	r := testRenderer(t, Options{Workers: 1})
	r.mustRender(t)
	worker := r.only(t)
	worker.renders = maxRenders - 1
	r.mustRender(t)
	select {
	case <-worker.exited:
	default:
		t.Error("the worker still runs")
	}
	r.mustRender(t)
	if r.only(t) == worker {
		t.Error("the worker is used again")
	}
}

// A worker that waits for too long ends.
func TestIdleWorkerEnds(t *testing.T) {
	r := testRenderer(t, Options{IdleTimeout: time.Millisecond})
	r.mustRender(t)
	r.mu.Lock()
	workers := slices.Collect(maps.Keys(r.all))
	r.mu.Unlock()
	for _, worker := range workers {
		<-worker.exited
	}
	r.mustRender(t)
}

// A worker is killed while it waits: the next render does not notice.
func TestKilledWhileWaiting(t *testing.T) {
	r := testRenderer(t, Options{Workers: 1})
	r.mustRender(t)
	worker := r.only(t)
	must.Do(t, worker.command.Process.Signal(syscall.SIGKILL))
	<-worker.exited
	r.mustRender(t)
}

// A worker is killed while it renders: that is reported, and only once.
func TestKilledWhileRendering(t *testing.T) {
	r := testRenderer(t, Options{Workers: 1})
	request := chartRequest(endless)
	request.Inputs[0].Store = &onRead{Store: request.Inputs[0].Store, do: func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for worker := range r.all {
			_ = worker.command.Process.Signal(syscall.SIGKILL)
		}
	}}
	_, err := r.Render(t.Context(), request)
	var failure *Error
	if !errors.As(err, &failure) || failure.Kind != WorkerDied || !strings.Contains(failure.Message, "killed") {
		t.Errorf("%v", err)
	}
	r.mustRender(t)
}

// onRead does something when the template is read.
type onRead struct {
	tree.Store
	do func()
}

func (o *onRead) Read(path string, limit int64) ([]byte, error) {
	if strings.HasSuffix(path, "a.yaml") {
		o.do()
	}
	return o.Store.Read(path, limit)
}

// Projects that wait for a worker take turns: the renders of one that came first do
// not all go first.
func TestProjectsTakeTurns(t *testing.T) {
	r := testRenderer(t, Options{Workers: 1})
	began, ended := make(chan string), make(chan error, 6)
	proceed := make(chan struct{})
	begin := func(project string) {
		request := chartRequest(oneObject)
		request.Project = project
		request.Inputs[0].Store = &onRead{Store: request.Inputs[0].Store, do: func() {
			began <- project
			<-proceed
		}}
		go func() {
			_, err := r.Render(t.Context(), request)
			ended <- err
		}()
	}
	begin("slow")
	order := []string{<-began}
	for i, project := range []string{"slow", "slow", "slow", "slow", "good"} {
		begin(project)
		awaitQueued(t, i+1)
	}
	for range 5 {
		proceed <- struct{}{}
		order = append(order, <-began)
	}
	proceed <- struct{}{}
	for range 6 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(order, " "); got != "slow good slow slow slow slow" {
		t.Errorf("the order is %s", got)
	}
}

// awaitQueued waits until a number of goroutines wait for a slot.
func awaitQueued(t *testing.T, count int) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for deadline := time.Now().Add(20 * time.Second); ; {
		if strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "fair.(*Slots).Acquire(") == count {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not %d renders wait", count)
		}
		runtime.Gosched()
	}
}

// The caller cancels: the worker is stopped, and the error is the context's.
func TestCancel(t *testing.T) {
	r := testRenderer(t, Options{Workers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	request := chartRequest(endless)
	request.Inputs[0].Store = &onRead{Store: request.Inputs[0].Store, do: cancel}
	began := time.Now()
	if _, err := r.Render(ctx, request); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	r.mustRender(t)
}

// Close ends what is under way, leaves no process and no folder.
func TestClose(t *testing.T) {
	r := must.Get(New(Options{Workers: 1}))(t)
	closed := make(chan error, 1)
	request := chartRequest(endless)
	request.Inputs[0].Store = &onRead{Store: request.Inputs[0].Store, do: func() {
		go func() { closed <- r.Close() }()
	}}
	var failure *Error
	if _, err := r.Render(t.Context(), request); !errors.As(err, &failure) || failure.Kind != WorkerDied {
		t.Errorf("%v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(r.folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the workers is still there: %v", err)
	}
	if _, err := r.Render(t.Context(), chartRequest(oneObject)); !errors.Is(err, errClosed) {
		t.Errorf("%v", err)
	}
}

// A Store that fails is not the fault of the repository.
func TestStoreFails(t *testing.T) {
	r := testRenderer(t, Options{Workers: 1})
	broken := errors.New("the disk is broken")
	request := chartRequest(oneObject)
	request.Inputs[0].Store = &failingRead{Store: request.Inputs[0].Store, err: broken}
	_, err := r.Render(t.Context(), request)
	var failure *Error
	if !errors.As(err, &failure) || failure.Kind != Unavailable || !errors.Is(err, broken) || failure.Holds(request) {
		t.Errorf("%v", err)
	}
}

type failingRead struct {
	tree.Store
	err error
}

func (f *failingRead) Read(string, int64) ([]byte, error) { return nil, f.err }

// A program that is no worker is reported at once.
func TestNoWorker(t *testing.T) {
	r := testRenderer(t, Options{Command: []string{program(), "-test.run=^$"}})
	_, err := r.Render(t.Context(), chartRequest(oneObject))
	var failure *Error
	if !errors.As(err, &failure) || failure.Kind != WorkerDied || !strings.Contains(failure.Message, "cannot be started") {
		t.Errorf("%v", err)
	}
}

// A worker has no environment but what is named here, runs without root, cannot
// gain privileges, and has few files open.
func TestWorkerIsConfined(t *testing.T) {
	r := testRenderer(t, Options{Workers: 1})
	t.Setenv("SECRET_TOKEN", "hunter2")
	r.mustRender(t)
	worker := r.only(t)
	t.Logf("missing protections: %q", worker.missing)
	proc := "/proc/" + strconv.Itoa(worker.command.Process.Pid)
	environment := must.Get(os.ReadFile(proc + "/environ"))(t)
	for variable := range strings.SplitSeq(strings.TrimRight(string(environment), "\x00"), "\x00") {
		if name, _, _ := strings.Cut(variable, "="); name != "TZ" && name != "GOMAXPROCS" && name != "GOTRACEBACK" {
			t.Errorf("the worker has the variable %s", name)
		}
	}
	status := must.Get(os.ReadFile(proc + "/status"))(t)
	for _, line := range []string{"NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(string(status), line) {
			t.Errorf("the worker does not have %q:\n%s", line, status)
		}
	}
	if os.Geteuid() == 0 && !strings.Contains(string(status), "Uid:\t65534\t65534") {
		t.Errorf("the worker is root:\n%s", status)
	}
	open, err := os.ReadDir(proc + "/fd")
	if err == nil && len(open) > 10 {
		t.Errorf("the worker has %d open files", len(open))
	}
}

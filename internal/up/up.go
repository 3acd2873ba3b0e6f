// Package up is slipway up: the whole product on one machine, in the
// foreground, without Docker and without root.
//
// It promises that the parts start in order and stop in reverse order, that
// nothing is left running after an error, Ctrl-C or its own death, and that the
// state survives from one run to the next. It shows what it waits for, and why
// it gave up.
//
// It refuses a directory that is not its own, a port that is in use, and a
// directory that another slipway up uses. The demo follows its repository,
// which belongs to the user: it is filled once. An Application that the user
// has deleted or pointed elsewhere stays so until a reset.
//
// See decision 0004 in docs/decisions: `internal/up` is a room of its own.
package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"slipway.dev/slipway/internal/kube"
)

// DefaultTimeout is generous for a slow laptop: a start takes seconds.
const DefaultTimeout = 3 * time.Minute

// parts lists everything that slipway up runs, in the order of the start. Each
// may use those before it.
func parts() []part {
	return []part{
		{
			name:  devclusterName,
			ports: []fixedPort{{apiServerPort, "the Kubernetes API server"}},
			start: startDevcluster,
			ready: devclusterReady,
			show:  showDevcluster,
		},
		{
			name:  gitName,
			ports: []fixedPort{{gitPort, "the Git repositories"}},
			start: startGit,
			ready: gitReady,
			show:  showGit,
		},
		{
			name:  platformName,
			ports: platformPorts(),
			start: startPlatform,
			ready: platformReady,
			show:  showPlatform,
		},
		{
			name:  agentName,
			ports: agentPorts(),
			start: startAgent,
			ready: agentReady,
			show:  showAgent,
		},
		{
			name:  edgeName,
			ports: edgePorts(),
			start: startEdge,
			ready: edgeReady,
			show:  showEdge,
		},
		{
			name:  demoName,
			start: startDemo,
			ready: demoReady,
			show:  showDemo,
		},
		{
			name:  runtimePart,
			start: func(context.Context, *scene) (*child, error) { return nil, nil },
			ready: runtimeReady,
			show:  showRuntime,
		},
	}
}

// Options configure slipway up.
type Options struct {
	// Dir keeps the state. Default: DefaultDir().
	Dir string
	// Reset deletes the state of earlier runs first.
	Reset bool
	// PortOffset is added to each fixed port, so that two can run side by side.
	PortOffset int
	// Timeout bounds the start, without a build. Default: DefaultTimeout.
	Timeout time.Duration
	// JSON prints the facts as one JSON object instead of a table.
	JSON bool
	// Executable is this program, which is started again for the parts that it
	// has itself; others are looked for beside it. Default: the running
	// executable.
	Executable string
	// Version is what the API server's audit log sees. Default: devel.
	Version string
}

// UI is where a run prints, and how the user hurries its end.
type UI struct {
	// Out gets the facts, once everything is up.
	Out io.Writer
	// Progress gets everything else.
	Progress io.Writer
	// Width is the number of columns when Progress is a terminal, else nil.
	Width func() int
	// KillNow, when closed, ends a stop that takes too long for the user.
	KillNow <-chan struct{}
}

// line prints one line of progress.
func (u UI) line(format string, values ...any) {
	// There is no other place to report that the output is closed.
	_, _ = fmt.Fprintf(u.Progress, format+"\n", values...)
}

// scene is the state that the parts share while they run. Parts start one after
// the other and in one goroutine, so it needs no lock.
type scene struct {
	options Options
	state   *state
	// binary is the path of slipway-devcluster.
	binary     string
	devcluster *child
	kubeconfig string
	cluster    *kube.Cluster
	version    string
	git        gitStatus
	platform   platformStatus
	agent      agentStatus
	edge       edgeStatus
	demo       demoStatus
	runtime    runtimeStatus
}

// Run brings everything up, prints the facts, and returns when everything has
// stopped again: nil after ctx ended it, an error when a part failed.
func Run(ctx context.Context, options Options, ui UI) error {
	options, err := options.complete()
	if err != nil {
		return err
	}
	all := parts()
	var names []string
	var ports []fixedPort
	for _, p := range all {
		names = append(names, p.name)
		ports = append(ports, p.ports...)
	}
	state, err := openState(ctx, options.Dir, names, func(note string) { ui.line("%s: %s", options.Dir, note) })
	if err != nil {
		return err
	}
	defer state.close()
	if err := checkPorts(ports, options.PortOffset); err != nil {
		return err
	}
	// A build may take minutes, which do not count towards the timeout.
	binary, err := obtainDevcluster(ctx, options.Executable, state.path(unpackFolder), ui)
	if err != nil {
		return err
	}
	// The deletion comes last: what cannot start must not destroy.
	if options.Reset {
		if err := state.reset(); err != nil {
			return err
		}
	}
	s := &scene{options: options, state: state, binary: binary}
	defer s.close()
	supervise := &supervisor{
		parts: all, scene: s, ui: ui, timeout: options.Timeout, grace: stopGrace,
		progress: newProgress(ui.Progress, ui.Width, names),
	}
	return supervise.run(ctx, func() error {
		if err := s.print(all, ui.Out); err != nil {
			return err
		}
		return s.passwordPrinted()
	})
}

// complete fills in the defaults and makes the directory absolute.
func (o Options) complete() (Options, error) {
	var err error
	if o.Dir == "" {
		if o.Dir, err = DefaultDir(); err != nil {
			return o, err
		}
	}
	// The commands that are printed work from any directory.
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return o, fmt.Errorf("--dir %s: %w", o.Dir, err)
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Timeout < 0 {
		return o, errors.New("--timeout must be longer than nothing, for example 3m")
	}
	if o.Executable == "" {
		if o.Executable, err = os.Executable(); err != nil {
			return o, fmt.Errorf("find the running executable: %w", err)
		}
	}
	o.Version = cmp.Or(o.Version, "devel")
	return o, nil
}

// print writes the rows and hints of all parts, and how to stop.
func (s *scene) print(all []part, w io.Writer) error {
	facts := Facts{PID: os.Getpid(), Dir: s.state.dir, Kubeconfig: s.kubeconfig}
	for _, p := range all {
		row, hints := p.show(s)
		facts.Parts = append(facts.Parts, row)
		facts.Try = append(facts.Try, hints...)
	}
	facts.Try = append(facts.Try, Hint{"stop", fmt.Sprintf("kill %d", facts.PID)})
	if s.options.JSON {
		return facts.writeJSON(w)
	}
	return facts.writeTable(w)
}

// close ends what runs in this process: the Git server and the connections to
// the cluster. The child processes have ended before.
func (s *scene) close() {
	s.git.close()
	if s.cluster != nil {
		s.cluster.Close()
	}
}

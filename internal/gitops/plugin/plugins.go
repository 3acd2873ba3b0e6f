package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tree"
)

// MaxOutputBytes bounds what a plugin responds with.
const MaxOutputBytes = 10 << 20

// suffix is that of the names of sockets.
const suffix = ".sock"

// Plugins are those whose sockets are in a folder. It is safe for concurrent use.
type Plugins struct {
	folder  string
	timeout time.Duration

	mu sync.Mutex
	// failed are the plugins whose last match failed.
	failed map[string]failedMatch
}

// failedMatch is a match that failed, at a time.
type failedMatch struct {
	err error
	at  time.Time
}

// matchPause is how long a plugin is not matched after it failed: every
// Application without a type would wait for it.
const matchPause = time.Minute

// New returns the plugins of a folder, which need not exist. The timeout bounds
// each call.
func New(folder string, timeout time.Duration) *Plugins {
	return &Plugins{folder: folder, timeout: timeout, failed: map[string]failedMatch{}}
}

// Error is why a plugin generated nothing. It may be gone the next time.
type Error struct {
	Message string
	// Slow: the plugin took as long as it may.
	Slow bool
	Err  error
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap is the cause, if there is one.
func (e *Error) Unwrap() error { return e.Err }

// failure makes an Error.
func failure(format string, args ...any) *Error { return &Error{Message: fmt.Sprintf(format, args...)} }

// Names lists the plugins that are there, in the order of their names. A folder
// that cannot be read has none.
func (p *Plugins) Names() (names []string) {
	entries, _ := os.ReadDir(p.folder)
	for _, entry := range entries {
		if name, found := strings.CutSuffix(entry.Name(), suffix); found && entry.Type() == fs.ModeSocket {
			names = append(names, name)
		}
	}
	return names
}

// Generate returns the manifests that a plugin generates of an input of a request,
// as YAML. The dependency is one that a render lacked. An error is an *[Error], a
// refusal of a file, or that of the context.
func (p *Plugins) Generate(ctx context.Context, call *Call) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	output, err := p.generate(limited, call)
	if err != nil {
		return nil, p.explain(ctx, limited, err)
	}
	return output, nil
}

// generate calls a plugin by its name. A plugin with discovery has to match the
// source too, as in Argo CD.
func (p *Plugins) generate(ctx context.Context, call *Call) ([]byte, error) {
	c, err := p.connect(call.name)
	if err != nil {
		return nil, err
	}
	defer c.close()
	config, err := c.configuration(ctx)
	switch {
	case err != nil:
		return nil, err
	case config.flags[flagGitCreds]:
		return nil, failure("it has provideGitCreds, and credentials of repositories do not leave the agent: " +
			"remove that from its plugin.yaml, and give its container a credential of its own")
	}
	sent, err := newArchive(call.files, call.folder)
	if err != nil {
		return nil, err
	}
	if config.flags[flagDiscovery] {
		matched, err := c.send(ctx, "MatchRepository", call, sent)
		if err != nil {
			return nil, err
		}
		if !matched.flags[flagSupported] && matched.flags[flagEnabled] {
			return nil, failure("its discovery does not match the source: correct the files, or spec.discover of its plugin.yaml")
		}
	}
	manifests, err := c.send(ctx, "GenerateManifest", call, sent)
	if err != nil {
		return nil, err
	}
	return []byte(strings.Join(manifests.texts, "\n---\n")), nil
}

// Candidates are the plugins that may match a source: those that are there and
// that admit, the right of the project, admits.
func (p *Plugins) Candidates(admit func(name string) error) []string {
	return slices.DeleteFunc(p.Names(), func(name string) bool { return admit(name) != nil })
}

// Match returns the first of some plugins whose discovery matches a source; empty
// if none does. A plugin that fails does not match; its error is returned if no
// other one does.
func (p *Plugins) Match(ctx context.Context, call *Call, candidates []string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	var sent *archive
	var failed error
	for _, name := range candidates {
		matched, err := false, p.lastFailure(name)
		if err == nil {
			matched, err = p.matches(limited, name, call, &sent)
			p.noteMatch(name, err)
		}
		if matched {
			return name, nil
		}
		if err != nil && failed == nil {
			failed = fmt.Errorf("plugin %s: %w", name, p.explain(ctx, limited, err))
		}
	}
	return "", failed
}

// lastFailure is why a plugin is not matched now; nil if it is.
func (p *Plugins) lastFailure(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := p.failed[name]; time.Since(last.at) < matchPause {
		return last.err
	}
	return nil
}

// noteMatch keeps the error of a plugin. What a file of the source causes is not
// the plugin's.
func (p *Plugins) noteMatch(name string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failed, name)
	var own *Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &own) {
		p.failed[name] = failedMatch{err, time.Now()}
	}
}

// matches reports whether a plugin matches. The archive is made for the first
// plugin that needs it.
func (p *Plugins) matches(ctx context.Context, name string, call *Call, sent **archive) (bool, error) {
	c, err := p.connect(name)
	if err != nil {
		return false, err
	}
	defer c.close()
	config, err := c.configuration(ctx)
	if err != nil || !config.flags[flagDiscovery] {
		return false, err
	}
	if *sent == nil {
		if *sent, err = newArchive(call.files, call.folder); err != nil {
			return false, err
		}
	}
	matched, err := c.send(ctx, "MatchRepository", call, *sent)
	return err == nil && matched.flags[flagSupported], err
}

// stopMargin is how long before the deadline argocd-cmp-server may stop a
// command, so that it can still report that.
const stopMargin = 500 * time.Millisecond

// explain makes an Error of one that the deadline of the limited context caused.
func (p *Plugins) explain(ctx, limited context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	deadline, _ := limited.Deadline()
	if !errors.Is(err, context.DeadlineExceeded) && time.Until(deadline) > stopMargin {
		return err
	}
	return &Error{Slow: true, Err: err, Message: fmt.Sprintf("it took longer than %s and was stopped: look at its log, or raise the option plugins.timeout of the agent", p.timeout)}
}

// socket is the path of a plugin's socket. A name from a repository must not lead
// out of the folder, and what is there has to be a socket itself: a link could lead
// to another program's.
func (p *Plugins) socket(name string) (string, error) {
	if name == "" || strings.ContainsAny(name, "/\\\x00") || strings.HasPrefix(name, ".") {
		return "", failure("%q is not the name of a plugin", name)
	}
	at := filepath.Join(p.folder, name+suffix)
	info, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", failure("there is no such plugin: its container has to run in the Pod of the agent and serve %s", at)
	case err != nil:
		return "", &Error{Message: err.Error(), Err: err}
	case info.Mode().Type() != fs.ModeSocket:
		return "", failure("%s is not a socket", at)
	}
	return at, nil
}

// Complete lets a request use plugins at once: it names the plugins that match its
// inputs, and resolves what they generate. admit is the right of the project.
func (p *Plugins) Complete(ctx context.Context, request *render.Request, admit func(name string) error) error {
	candidates := p.Candidates(admit)
	for i := range request.Inputs {
		if len(candidates) == 0 || !request.Inputs[i].Untyped() {
			continue
		}
		var err error
		if request.Inputs[i].Plugin, err = p.Match(ctx, NewMatch(request, i), candidates); err != nil {
			return err
		}
	}
	others := request.Resolve
	request.Resolve = func(ctx context.Context, wanted render.Dependency) (tree.Store, error) {
		if wanted.Plugin == "" {
			return others(ctx, wanted)
		}
		call, err := NewCall(request, wanted)
		if err != nil {
			return nil, err
		}
		if err := admit(call.name); err != nil {
			return nil, err
		}
		output, err := p.Generate(ctx, call)
		return Output(output), err
	}
	return nil
}

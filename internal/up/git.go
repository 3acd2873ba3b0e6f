package up

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"slipway.dev/slipway/internal/gitserver"
)

const (
	gitName = "git"
	gitPort = 8085
	// maxGitLog bounds the log of the Git server, which has failures only.
	maxGitLog = 1 << 20
)

// gitStatus is the Git server's part of a scene.
type gitStatus struct {
	// missing is the reason why there is no Git server, empty if there is one.
	missing string
	server  *gitserver.Server
	log     *boundedLog
	// pushes notifies the agent of pushes.
	pushes *announcer
	// token is the password of all repositories but the demo.
	token string
	// unreached is the reason why the Shared Configuration Repository is not
	// served at the address that the account has, empty if it is.
	unreached string
}

// startGit serves the repositories, which are created if they are missing. On a
// machine without git everything else runs.
func startGit(ctx context.Context, s *scene) (*child, error) {
	git, err := gitserver.Find(ctx)
	if err != nil {
		s.git.missing = err.Error()
		return nil, nil
	}
	if err := s.state.root.MkdirAll(gitName, 0o700); err != nil {
		return nil, err
	}
	if err := s.state.recordGitPort(gitPort + s.options.PortOffset); err != nil {
		return nil, err
	}
	if s.git.token, err = s.provideGitToken(); err != nil {
		return nil, err
	}
	if err := s.createRepositories(ctx, git); err != nil {
		return nil, err
	}
	if s.git.log, err = openBoundedLog(filepath.Join(s.state.path(gitName), "git.log")); err != nil {
		return nil, err
	}
	listeners, err := s.listenForGit(ctx)
	if err != nil {
		return nil, err
	}
	// The announcer exists before the server, which calls it for each push.
	s.git.pushes = newAnnouncer("http://"+s.local(agentHookPort)+"/webhooks", s.git.log)
	s.git.server = git.Serve(gitserver.Options{
		Dir:          s.state.path(gitName),
		Repositories: map[string]string{demoRepository: "", sharedRepository: s.git.token, appsRepository: s.git.token},
		Pushed: func(repository string, changes []gitserver.Change) {
			s.git.pushes.announce(s.urlOf(repository), changes)
		},
		Log: s.git.log,
	}, listeners...)
	return nil, nil
}

// listenForGit opens the port of this start, which must be free, and that of the
// first start. Where another program has the latter, all but the Shared
// Configuration Repository and the Git Source work.
func (s *scene) listenForGit(ctx context.Context) ([]net.Listener, error) {
	listen := func(address string) (net.Listener, error) {
		return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	}
	listener, err := listen(s.local(gitPort))
	if err != nil {
		return nil, fmt.Errorf("serve the repositories: %w", err)
	}
	lasting := strings.TrimPrefix(s.lastingAddress(), "http://")
	if lasting == s.local(gitPort) {
		return []net.Listener{listener}, nil
	}
	first, err := listen(lasting)
	if err != nil {
		s.git.unreached = fmt.Sprintf("%s is in use by another program", lasting)
		return []net.Listener{listener}, nil
	}
	return []net.Listener{listener, first}, nil
}

// gitReady reports how the repository is served: it listens when startGit
// returns.
func gitReady(_ context.Context, s *scene, _ func(string)) (string, error) {
	if s.git.missing != "" {
		return "left out: " + s.git.missing, nil
	}
	return "ready", nil
}

// showGit returns the Git server's row and hints.
func showGit(s *scene) (Row, []Hint) {
	row := Row{Part: gitName}
	if s.git.missing != "" {
		row.Detail = "left out: " + s.git.missing + ", and start again"
		return row, nil
	}
	row.Address = s.repositoryURL()
	row.Detail = "the repository of the demo: pushes to " + gitserver.Branch + " go live; beside it " + sharedRepository + " and " + appsRepository
	return row, nil
}

// close stops the Git server, then the announcer that it calls, then the log
// that both write.
func (g *gitStatus) close() {
	if g.server != nil {
		// A push that does not end in time is cut, and there is no reader for
		// the error.
		_ = g.server.Close()
	}
	if g.pushes != nil {
		g.pushes.close()
	}
	if g.log != nil {
		g.log.close()
	}
}

// boundedLog is a log file that stops growing at its bound. It is safe for
// concurrent use.
type boundedLog struct {
	mu   sync.Mutex
	file *os.File
	left int
}

// openBoundedLog opens an empty log file with room for maxGitLog bytes.
func openBoundedLog(path string) (*boundedLog, error) {
	file, err := freshLog(path)
	if err != nil {
		return nil, err
	}
	return &boundedLog{file: file, left: maxGitLog}, nil
}

// Write writes a message that there is room for and drops others, and accepts
// everything: a full log must not stop its writer.
func (l *boundedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(p) <= l.left {
		l.left -= len(p)
		// A log that cannot be written does not stop what it is about.
		_, _ = l.file.Write(p)
	}
	return len(p), nil
}

// close closes the file. Later messages find no room and are dropped.
func (l *boundedLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = 0
	_ = l.file.Close()
}

var _ io.Writer = (*boundedLog)(nil)

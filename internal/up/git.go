package up

import (
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
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
	// repositoryName is the folder of the sample below that of the part, and
	// the path of its URL.
	repositoryName = "demo.git"
	// maxGitLog bounds the log of the Git server, which has failures only.
	maxGitLog = 1 << 20
)

// sample is what the sample repository has in the beginning.
//
//go:embed sample
var sample embed.FS

// gitStatus is the Git server's part of a scene.
type gitStatus struct {
	// missing is the reason why there is no Git server, empty if there is one.
	missing string
	server  *gitserver.Server
	log     *boundedLog
	// pushes notifies the agent of pushes.
	pushes *announcer
}

// startGit serves the sample repository, which is created if it is missing. On
// a machine without git everything else runs.
func startGit(ctx context.Context, s *scene) (*child, error) {
	git, err := gitserver.Find(ctx)
	if err != nil {
		s.git.missing = err.Error()
		return nil, nil
	}
	files, err := sampleFiles()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.state.path(gitName), repositoryName)
	if err := git.Create(ctx, dir, files); err != nil {
		return nil, err
	}
	if s.git.log, err = openBoundedLog(filepath.Join(s.state.path(gitName), "git.log")); err != nil {
		return nil, err
	}
	// The listener is opened here, so that a port in use fails the start.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.local(gitPort))
	if err != nil {
		return nil, fmt.Errorf("serve the sample repository: %w", err)
	}
	// The announcer exists before the server, which calls it for each push.
	s.git.pushes = newAnnouncer("http://"+s.local(agentHookPort)+"/webhooks", s.repositoryURL(), s.git.log)
	s.git.server = git.Serve(listener, gitserver.Options{Dir: dir, Pushed: s.git.pushes.announce, Log: s.git.log})
	return nil, nil
}

// sampleFiles are the files of the sample by their paths.
func sampleFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(sample, "sample", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := sample.ReadFile(path)
		files[strings.TrimPrefix(path, "sample/")] = content
		return err
	})
	return files, err
}

// gitReady reports how the repository is served: it listens when startGit
// returns.
func gitReady(_ context.Context, s *scene, _ func(string)) (string, error) {
	if s.git.missing != "" {
		return "left out: " + s.git.missing, nil
	}
	return "ready", nil
}

// repositoryURL returns the URL of the sample, for clients and the agent.
func (s *scene) repositoryURL() string { return "http://" + s.local(gitPort) + "/" + repositoryName }

// showGit returns the Git server's row and hints.
func showGit(s *scene) (Row, []Hint) {
	row := Row{Part: gitName}
	if s.git.missing != "" {
		row.Detail = "left out: " + s.git.missing + ", and start again"
		return row, nil
	}
	row.Address = s.repositoryURL()
	row.Detail = "the repository of the demo: pushes to " + gitserver.Branch + " goes live"
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

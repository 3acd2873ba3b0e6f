package gitserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// commandTimeout bounds a git command on a small repository.
	commandTimeout = 30 * time.Second
	// maxStderr bounds the quoted stderr of git.
	maxStderr = 2 << 10
	// maxPush bounds the size of a push.
	maxPush = 64 << 20
)

// Git is the installed git.
type Git struct {
	command string // path of git
	backend string // path of git-http-backend
}

// Find locates git in PATH. Its error names the package to install.
func Find(ctx context.Context) (Git, error) {
	command, err := exec.LookPath("git")
	if err != nil {
		return Git{}, errors.New("git is not installed: install the package git")
	}
	g := Git{command: command}
	// git-http-backend is not in PATH; its folder depends on the
	// distribution.
	folder, err := g.run(ctx, "", nil, "--exec-path")
	if err != nil {
		return Git{}, err
	}
	g.backend = filepath.Join(strings.TrimSpace(folder), "git-http-backend")
	if info, err := os.Stat(g.backend); err != nil || !info.Mode().IsRegular() {
		return Git{}, fmt.Errorf("git has no git-http-backend in %s: install the package that has it (git-daemon on Alpine, git-core on Fedora, git elsewhere)",
			filepath.Dir(g.backend))
	}
	return g, nil
}

// run runs git and returns its stdout.
func (g Git) run(ctx context.Context, dir string, input io.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, g.command, args...)
	command.Dir, command.Stdin = dir, input
	// Only PATH is inherited: git needs it to find its own programs.
	command.Env = append(environment(dir), "PATH="+os.Getenv("PATH"))
	var out, stderr bytes.Buffer
	command.Stdout, command.Stderr = &out, &stderr
	if err := command.Run(); err != nil {
		text := strings.TrimSpace(stderr.String())
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, text[:min(len(text), maxStderr)])
	}
	return out.String(), nil
}

// environment returns the environment of every git process: none of the
// user's configuration, which is meant for other repositories, and fixed
// settings instead. GIT_CONFIG_COUNT passes them without a file.
func environment(dir string) []string {
	settings := []struct{ key, value string }{
		{"http.receivepack", "true"},
		// Hooks are programs, and a background gc would outlive this process.
		{"core.hooksPath", os.DevNull},
		{"receive.autogc", "false"},
		{"gc.auto", "0"},
		{"receive.fsckObjects", "true"},
		{"receive.maxInputSize", strconv.Itoa(maxPush)},
		// A rollback fetches a commit that no branch contains.
		{"uploadpack.allowAnySHA1InWant", "true"},
		// The caller chose the folder; under sudo it may belong to another
		// user.
		{"safe.directory", "*"},
	}
	env := []string{
		"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_CONFIG_COUNT=" + strconv.Itoa(len(settings)),
	}
	for i, setting := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, setting.key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, setting.value))
	}
	return env
}

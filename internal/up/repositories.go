package up

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitserver"
)

// The repositories, which are folders below that of the part, and paths of
// their URLs.
const (
	demoRepository = "demo.git"
	// sharedRepository is the Shared Configuration Repository of the account.
	sharedRepository = "config.git"
	// appsRepository is that of the Git Source.
	appsRepository = "apps.git"
	// definitionsFile is written at each start, so that the definitions are
	// those of this version.
	definitionsFile = "resources/slipway/chart/definitions.yaml"
	// gitTokenFile has the password of the repositories that need one.
	gitTokenFile = "token"
	// sampleAddress is the Git server in the files below; its real address
	// replaces it.
	sampleAddress = "http://127.0.0.1:8085"
)

// samples have the first files of the repositories.
//
//go:embed sample shared apps
var samples embed.FS

// createRepositories creates the repositories that are missing. Those that
// exist are the user's, but for the definitions of the runtime.
func (s *scene) createRepositories(ctx context.Context, git gitserver.Git) error {
	for name, folder := range map[string]string{demoRepository: "sample", sharedRepository: "shared", appsRepository: "apps"} {
		files, err := sampleFiles(folder, s.lastingAddress())
		if err != nil {
			return err
		}
		if err := git.Create(ctx, s.repositoryDir(name), files); err != nil {
			return err
		}
	}
	definitions, err := v1alpha1.CRDs()
	if err != nil {
		return err
	}
	text := append([]byte("# The definitions of slipway.dev. slipway up writes them at each start.\n"), definitions...)
	if err := git.Update(ctx, s.repositoryDir(sharedRepository), "runtime slipway: definitions of this version", map[string][]byte{definitionsFile: text}); err != nil {
		return fmt.Errorf("write the definitions of the runtime: %w", err)
	}
	return nil
}

// repositoryDir returns the folder of a repository.
func (s *scene) repositoryDir(name string) string {
	return filepath.Join(s.state.path(gitName), name)
}

// sampleFiles are the first files of a repository by their paths, with the
// address of the Git server.
func sampleFiles(folder, address string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(samples, folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := samples.ReadFile(path)
		files[strings.TrimPrefix(path, folder+"/")] = []byte(strings.ReplaceAll(string(content), sampleAddress, address))
		return err
	})
	return files, err
}

// provideGitToken returns the password of the shared repository and of the Git
// Source, which is created once. They have one because a push there decides what
// the runtime deploys.
func (s *scene) provideGitToken() (string, error) {
	file := filepath.Join(gitName, gitTokenFile)
	found, err := s.state.readBounded(file)
	if token := strings.TrimSpace(string(found)); err == nil && token != "" {
		return token, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	token := rand.Text()
	return token, s.state.writeSynced(file, []byte(token+"\n"))
}

// repositoryURL returns the URL of the demo, for clients and the agent. Its port
// follows --port-offset.
func (s *scene) repositoryURL() string { return "http://" + s.local(gitPort) + "/" + demoRepository }

// lastingAddress returns the address of the Git server at the port of the first
// start. The account's settings name the shared repository by it, and cannot be
// changed once a runtime uses them.
func (s *scene) lastingAddress() string {
	return fmt.Sprintf("http://127.0.0.1:%d", s.state.marker.GitPort)
}

// lastingURL returns the URL of a repository at the port of the first start.
func (s *scene) lastingURL(name string) string { return s.lastingAddress() + "/" + name }

// urlOf returns the URL by which Applications name a repository.
func (s *scene) urlOf(name string) string {
	if name == demoRepository {
		return s.repositoryURL()
	}
	return s.lastingURL(name)
}

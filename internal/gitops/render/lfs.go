package render

import (
	"errors"
	"io/fs"
	"strings"

	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/tree"
)

// lfsConfigFile is where a repository names another server of Git LFS.
const lfsConfigFile = ".lfsconfig"

// pointer reads a file that Git LFS keeps. It is a dependency of the job, by its
// digest. A pointer that needs more than an object is refused.
func (f *remoteFiles) pointer(at *tree.Pointer) fileResponse {
	if !f.repository || at.OID == "" || at.Path == lfsConfigFile {
		return fileResponse{err: at.Unwrap()}
	}
	config, err := f.Read(lfsConfigFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileResponse{err: err}
	}
	wanted := job.Dependency{RepoURL: f.address, OID: at.OID, Size: at.Size, Server: lfsServer(string(config))}
	files, found := f.dependencies[wanted]
	if !found {
		missing := job.MissingDependency{Dependency: wanted, By: at.Path + ": it is a pointer of Git LFS"}
		return fileResponse{err: &job.Incomplete{Missing: []job.MissingDependency{missing}}}
	}
	text, err := files.Read(job.FileName)
	return fileResponse{text: text, err: err}
}

// lfsServer is the address of the server that .lfsconfig has; empty if it has
// none. The format is that of Git's configuration. lfs.url goes before the
// address of the remote, as in Git LFS.
func lfsServer(text string) string {
	section, ofRemote := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.ToLower(strings.Join(strings.Fields(strings.Trim(line, "[]")), " "))
			continue
		}
		key, value := configLine(line)
		switch section + "." + key {
		case "lfs.url":
			return value
		case `remote "origin".lfsurl`:
			ofRemote = value
		}
	}
	return ofRemote
}

// configLine is the key and the value of a line of Git's configuration. Of its
// escapes, which addresses and paths do not need, only quotes are known.
func configLine(line string) (key, value string) {
	key, value, _ = strings.Cut(line, "=")
	if end := strings.IndexAny(value, "#;"); end >= 0 {
		value = value[:end]
	}
	return strings.ToLower(strings.TrimSpace(key)), strings.Trim(strings.TrimSpace(value), `"`)
}

package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/tree"
)

// modulesFile has the addresses of submodules.
const modulesFile = ".gitmodules"

// maxNestedSubmodules bounds how deep submodules may be in submodules. Each level
// takes a fetch, and a render that reads all levels before it.
const maxNestedSubmodules = 16

// submodule reads a path in a submodule. Its repository is a dependency of the
// job, at the commit that the repository has for it. One that the job does not
// have is noted with the call.
func (f *remoteFiles) submodule(kind frame.Type, at *tree.InSubmodule) fileResponse {
	if f.dependencies == nil {
		return fileResponse{err: at.Unwrap()}
	}
	if f.nested >= maxNestedSubmodules {
		return fileResponse{err: refusal.New(at.Path, refusal.TooMany, "submodules are in submodules, more than %d deep: take them out of the repository, or name another folder", maxNestedSubmodules)}
	}
	address, err := f.moduleAddress(at.Path)
	if err != nil {
		return fileResponse{err: err}
	}
	wanted := job.Dependency{RepoURL: address, Revision: at.Commit}
	files, found := f.dependencies[wanted]
	if !found {
		missing := job.MissingDependency{Dependency: wanted, By: fmt.Sprintf("%s is a submodule", at.Path)}
		f.call.lacks(missing) // engines may make text of the error
		return fileResponse{err: &job.Incomplete{Missing: []job.MissingDependency{missing}}}
	}
	if below, ok := files.(*remoteFiles); ok {
		below.nested = max(below.nested, f.nested+1)
	}
	var response fileResponse
	switch kind {
	case frame.Stat:
		var entry tree.Entry
		entry, response.err = files.Stat(at.Rest)
		response.entries = []tree.Entry{entry}
	case frame.List:
		response.entries, response.err = files.List(at.Rest)
	default:
		response.text, response.err = job.Peek(files, at.Rest)
	}
	return response
}

// moduleAddress is the address of a submodule, by the file that Git has for them.
func (f *remoteFiles) moduleAddress(module string) (string, error) {
	text, err := f.Read(modulesFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if address := parseModules(string(text))[module]; address != "" {
		return relativeTo(f.address, address), nil
	}
	return "", refusal.New(module, refusal.NotFound, "it is a submodule, and %s has no address of it: add it with \"git submodule add\"", modulesFile)
}

// parseModules reads the addresses of submodules by their paths. The format is
// that of Git's configuration.
func parseModules(text string) map[string]string {
	addresses := map[string]string{}
	var module, address string
	for line := range strings.Lines(text + "\n[end]") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			addresses[path.Clean(module)] = address
			module, address = "", ""
			continue
		}
		key, value := configLine(line)
		switch key {
		case "path":
			module = value
		case "url":
			address = value
		}
	}
	return addresses
}

// relativeTo is the address of a submodule that is written from the address of
// its repository, as ../other.git.
func relativeTo(base, address string) string {
	if !strings.HasPrefix(address, "./") && !strings.HasPrefix(address, "../") {
		return address
	}
	base, separator := strings.TrimSuffix(base, "/"), "/"
	for {
		if rest, found := strings.CutPrefix(address, "./"); found {
			address = rest
			continue
		}
		rest, found := strings.CutPrefix(address, "../")
		last := strings.LastIndexAny(base, "/:")
		if !found || last < 0 {
			return base + separator + address
		}
		// In user@host:path the path begins after a colon.
		address, separator, base = rest, base[last:last+1], base[:last]
	}
}

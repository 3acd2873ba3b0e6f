package kustomize

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/tree"
)

// remoteBase is a folder of another Git repository that a kustomization names.
type remoteBase struct {
	job.Dependency
	folder string
}

// parseBase reads the address of a base as Kustomize does: the repository ends at
// _git/NAME, at //, at .git, or after two parts of the path. What is none of the
// first three and ends like a manifest is a single file, which Kustomize requests
// before it tries Git. A repository of this machine is no base.
func parseBase(entry string) (remoteBase, bool) {
	text, query, _ := strings.Cut(strings.TrimSpace(entry), "?")
	for {
		rest, found := cutPrefixFold(text, "git::")
		if !found {
			break
		}
		text = rest
	}
	host, rest := cutHost(text)
	if host == "" {
		return remoteBase{}, false
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return remoteBase{}, false
	}
	base := remoteBase{Dependency: job.Dependency{Revision: values.Get("version")}}
	if ref := values.Get("ref"); ref != "" {
		base.Revision = ref
	}
	// Git would read it as an option (CVE-2026-113708); nothing fetches that.
	if strings.HasPrefix(base.Revision, "-") {
		return remoteBase{}, false
	}
	repository, folder, found := cutRepository(rest)
	if !found && query == "" && strings.HasPrefix(host, "http") && isFileName(rest) {
		return remoteBase{job.Dependency{RepoURL: host + rest, File: true}, job.FileName}, true
	}
	if !found {
		parts := strings.SplitN(rest, "/", 3)
		if len(parts) < 2 || base.Revision == "" && isFileName(rest) {
			return remoteBase{}, false
		}
		repository, folder = parts[0]+"/"+parts[1], strings.Join(parts[2:], "")
	}
	base.RepoURL, base.folder = host+repository, path.Clean("/" + folder)[1:]
	outside := path.Clean(strings.TrimPrefix(folder, "/"))
	return base, repository != "" && outside != ".." && !strings.HasPrefix(outside, "../")
}

// cutHost splits an address after its host: the scheme, the user and the host of
// the repository, and the path. The host is empty for what is no address of a
// Git repository. As in Kustomize, github.com needs no scheme.
func cutHost(text string) (host, rest string) {
	for _, scheme := range []string{"https://", "http://", "ssh://"} {
		if below, found := cutPrefixFold(text, scheme); found {
			name, rest, _ := strings.Cut(below, "/")
			return scheme + name + "/", rest
		}
	}
	for _, short := range []string{"github.com/", "github.com:"} {
		if below, found := cutPrefixFold(text, short); found {
			return "https://github.com/", below
		}
	}
	if userAt.MatchString(text) {
		if name, rest, found := strings.Cut(text, ":"); found && !strings.Contains(name, "/") {
			return name + ":", rest
		}
	}
	return "", ""
}

// cutPrefixFold is strings.CutPrefix that ignores the case.
func cutPrefixFold(text, prefix string) (string, bool) {
	if len(text) < len(prefix) || !strings.EqualFold(text[:len(prefix)], prefix) {
		return text, false
	}
	return text[len(prefix):], true
}

// cutRepository splits a path by the marks that end a repository.
func cutRepository(text string) (repository, folder string, found bool) {
	if before, after, found := strings.Cut(text, "_git/"); found {
		name, folder, _ := strings.Cut(after, "/")
		return before + "_git/" + name, folder, true
	}
	if before, after, found := strings.Cut(text, "//"); found {
		return before, after, true
	}
	if before, after, found := strings.Cut(text, ".git"); found {
		return before + ".git", after, true
	}
	return "", "", false
}

// isFileName reports whether a path ends like a file of manifests.
func isFileName(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// mounted is how the folders of other repositories begin in the file system that
// Kustomize sees. A folder of the repository with such a name is not reachable.
const mounted = ".slipway-repository-"

// mount is the folder under which a repository is seen; empty if the job does not
// have it.
func (d *fileSystem) mount(wanted job.Dependency) string {
	for i, known := range d.mounts {
		if known.Dependency == wanted {
			return fmt.Sprintf("%s%d", mounted, i)
		}
	}
	files, found := d.dependencies[wanted]
	if !found {
		return ""
	}
	d.mounts = append(d.mounts, mount{wanted, files})
	return fmt.Sprintf("%s%d", mounted, len(d.mounts)-1)
}

// mount is another repository in the file system.
type mount struct {
	job.Dependency
	files job.Files
}

// rootOf is the folder under which the repository of a path is seen; empty for
// that of the Application.
func rootOf(name string) string {
	if first, _, _ := strings.Cut(name, "/"); strings.HasPrefix(first, mounted) {
		return first
	}
	return ""
}

// place is the files that a path belongs to, and the path there.
func (d *fileSystem) place(name string) (job.Files, string) {
	name = local(name)
	root := rootOf(name)
	for i := range d.mounts {
		if root == fmt.Sprintf("%s%d", mounted, i) {
			return d.mounts[i].files, strings.TrimPrefix(strings.TrimPrefix(name, root), "/")
		}
	}
	return d.files, name
}

// shown is a path for messages.
func (d *fileSystem) shown(name string) string {
	files, below := d.place(name)
	for i := range d.mounts {
		if rootOf(name) != "" && d.mounts[i].files == files {
			return d.mounts[i].RepoURL + "//" + below
		}
	}
	return name
}

// hasPassword finds a password in an address.
var hasPassword = regexp.MustCompile(`://[^/]*:[^/]*@`)

// base makes the folder of another repository, or a file at an address, a part of
// the build: the entry is replaced by the path under which it is seen. What the
// job does not have is noted, and the scan goes on.
func (s *scanner) base(folder, file, name string, entry *string, wanted remoteBase) error {
	text := short(*entry)
	if hasPassword.MatchString(text) {
		text = "an address with a password"
	}
	root := s.disk.mount(wanted.Dependency)
	if root == "" {
		s.missing = append(s.missing, job.MissingDependency{
			Dependency: wanted.Dependency, By: fmt.Sprintf("%s: %s: %q is not in the repository", file, name, text),
		})
		return nil
	}
	if wanted.File {
		// Kustomize reads files below the kustomization only, and folders anywhere.
		content, err := s.disk.ReadFile(path.Join(root, wanted.folder))
		if err != nil {
			return fmt.Errorf("%s: %s: %q: %w", file, name, text, err)
		}
		*entry = ".slipway-file-" + strings.TrimPrefix(root, mounted) + ".yaml"
		s.disk.edited[local(path.Join(folder, *entry))] = content
		return nil
	}
	at := path.Join(root, wanted.folder)
	if kind, err := s.disk.stat(at); err != nil {
		return fmt.Errorf("%s: %s: %q: %w", file, name, text, err)
	} else if kind.Kind != tree.Folder {
		return fmt.Errorf("%s: %s: %q is not a folder of the repository", file, name, text)
	}
	relative, err := filepath.Rel("/"+folder, "/"+at)
	if err != nil {
		return err
	}
	*entry = relative
	return s.folder(at)
}

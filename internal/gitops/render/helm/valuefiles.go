package helm

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/tree"
)

// valueFiles are the files of valueFiles with its patterns expanded. As in Argo
// CD, a file that is named is where it is named, and no pattern adds it; a file
// that two patterns match is where the first one is.
func (r *Request) valueFiles() ([]valueFile, error) {
	options := r.options()
	var listed []valueFile
	named := map[[2]string]bool{}
	lacks := &job.Incomplete{}
	for _, entry := range options.ValueFiles {
		file, err := r.valueFile(entry)
		// Those at addresses are fetched together.
		if incomplete, ok := errors.AsType[*job.Incomplete](err); ok {
			lacks.Missing = append(lacks.Missing, incomplete.Missing...)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("helm.valueFiles: %w", err)
		}
		listed = append(listed, file)
		if !isPattern(file.path) {
			named[file.identity()] = true
		}
	}
	if len(lacks.Missing) > 0 {
		return nil, lacks
	}
	// The second pass keeps the order of the list, and expands patterns in
	// place.
	var files []valueFile
	for _, file := range listed {
		if !isPattern(file.path) {
			if there, err := file.exists(); err != nil {
				return nil, err
			} else if there || !options.IgnoreMissingValueFiles {
				files = append(files, file)
			}
			continue
		}
		matches, err := file.expand()
		if err != nil {
			return nil, err
		}
		if len(matches) == 0 && !options.IgnoreMissingValueFiles {
			return nil, fmt.Errorf("helm.valueFiles: no file matches %s: add one, or set ignoreMissingValueFiles", file.name)
		}
		for _, match := range matches {
			if !named[match.identity()] {
				named[match.identity()] = true
				files = append(files, match)
			}
		}
	}
	return files, nil
}

// identity is equal for two spellings of one file. The source is part of it:
// two repositories may have the same path.
func (f *valueFile) identity() [2]string { return [2]string{f.source, path.Clean(f.path)} }

// exists reports whether the file exists. Refusals are errors, also with
// ignoreMissingValueFiles.
func (f *valueFile) exists() (bool, error) {
	_, err := f.files.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// isPattern reports whether a path contains a wildcard.
func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// expand finds the files that match, each folder's own files before those of
// its folders, in the order of their names. The pattern is checked part by part
// up front: path.Match reports a malformed pattern only when the match gets
// that far. Without ** the depth of the search is that of the pattern, so that
// a pattern in a large repository does not read all of it.
func (f *valueFile) expand() ([]valueFile, error) {
	pattern := path.Clean(f.path)
	if pattern == ".." || strings.HasPrefix(pattern, "../") {
		return nil, refusal.New("helm.valueFiles", refusal.NotAllowed, "%s leaves the repository", f.name)
	}
	parts := strings.Split(pattern, "/")
	for _, part := range parts {
		if _, err := path.Match(part, ""); err != nil {
			return nil, fmt.Errorf("helm.valueFiles: %s is not a pattern: %w", f.name, err)
		}
	}
	// The search starts below the part of the pattern without wildcards.
	fixed := 0
	for fixed < len(parts)-1 && !isPattern(parts[fixed]) {
		fixed++
	}
	search := search{file: f, pattern: parts, depth: len(parts) - 1}
	for _, part := range parts {
		if part == "**" {
			search.depth = maxDepth
		}
	}
	err := search.folder(strings.Join(parts[:fixed], "/"), fixed)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return search.found, err
}

// search looks for files that match a pattern.
type search struct {
	file    *valueFile
	pattern []string
	depth   int
	found   []valueFile
}

// folder searches one folder and, up to the depth of the pattern, those below
// it.
func (s *search) folder(name string, depth int) error {
	entries, err := s.file.files.List(name)
	if err != nil {
		return err
	}
	var folders []string
	for _, entry := range entries {
		below := join(name, entry.Name)
		if entry.Kind == tree.Folder {
			folders = append(folders, below)
			continue
		}
		if !matches(s.pattern, strings.Split(below, "/")) {
			continue
		}
		// A link that leaves the repository is refused when it is read.
		s.found = append(s.found, valueFile{files: s.file.files, path: below, name: below, source: s.file.source})
	}
	if depth >= s.depth {
		return nil
	}
	for _, below := range folders {
		if err := s.folder(below, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// matches reports whether a path matches a pattern, part by part; ** is any
// number of folders. Runs of ** are collapsed before the recursion, which keeps
// **/**/**/x from growing exponentially.
func matches(pattern, name []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			for len(pattern) > 1 && pattern[1] == "**" {
				pattern = pattern[1:]
			}
			if len(pattern) == 1 {
				return true
			}
			for i := range name {
				if matches(pattern[1:], name[i:]) {
					return true
				}
			}
			return false
		}
		if len(name) == 0 {
			return false
		}
		if ok, err := path.Match(pattern[0], name[0]); err != nil || !ok {
			return false
		}
		pattern, name = pattern[1:], name[1:]
	}
	return len(name) == 0
}

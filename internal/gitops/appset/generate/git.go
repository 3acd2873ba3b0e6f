package generate

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/glob"
	"slipway.dev/slipway/internal/gitops/tree"
)

// The limits of one repository.
const (
	MaxFile    = 1 << 20  // bytes
	maxFiles   = 32 << 20 // bytes of all files
	maxEntries = 200_000  // folders and files that are listed
)

// repositoryTree is the files of one repository, with counters of what was
// read.
type repositoryTree struct {
	tree.Store
	entries int
	bytes   int
}

// tree returns the files of a repository. It is cached for the generation, so
// that all generators of a set see one commit. A branch that moves during the
// generation does not mix two commits.
func (r *runner) tree(repoURL, revision string) (*repositoryTree, error) {
	key := [2]string{repoURL, revision}
	if known, ok := r.trees[key]; ok {
		return known, nil
	}
	// Facts decides whether the set may read the repository.
	store, _, err := r.facts.Tree(r.ctx, repoURL, revision)
	if err != nil {
		return nil, err
	}
	r.trees[key] = &repositoryTree{Store: store}
	return r.trees[key], nil
}

// list returns the entries of a folder, and counts them.
func (t *repositoryTree) list(folder string) ([]tree.Entry, error) {
	entries, err := t.List(folder)
	// Patterns may begin with a folder that does not exist.
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	// The counter covers all generators of the set.
	if t.entries += len(entries); t.entries > maxEntries {
		return nil, fmt.Errorf("the repository has more than %d folders and files where the patterns look: write longer paths", maxEntries)
	}
	return entries, err
}

// gitSets returns one set for each folder or file that the patterns match. The
// API requires either directories or files, and directories win here.
func (r *runner) gitSets(git *v1alpha1.GitGenerator, outer map[string]any) ([]map[string]any, error) {
	place, err := r.gitPlace(git, outer)
	if err != nil {
		return nil, err
	}
	files, err := r.tree(place.repoURL, place.revision)
	if err != nil {
		return nil, err
	}
	var sets []map[string]any
	if len(git.Directories) > 0 {
		sets, err = r.folderSets(files, place)
	} else {
		sets, err = r.fileSets(files, place)
	}
	if err != nil {
		return nil, err
	}
	for _, params := range sets {
		if err := r.withValues(params, git.Values, outer); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// gitPlace is the input of a git generator, with the parameters of the
// generator before it.
type gitPlace struct {
	repoURL, revision, prefix string
	patterns, excluded        []string
}

// gitPlace expands the texts of a git generator.
func (r *runner) gitPlace(git *v1alpha1.GitGenerator, outer map[string]any) (gitPlace, error) {
	// All texts are expanded first, so that the limits hold for the results.
	place := gitPlace{}
	for _, text := range []struct {
		name, given string
		into        *string
	}{{"repoURL", git.RepoURL, &place.repoURL}, {"revision", git.Revision, &place.revision}, {"pathParamPrefix", git.PathParamPrefix, &place.prefix}} {
		expanded, err := r.inOuter(text.given, outer)
		if err != nil {
			return place, fmt.Errorf("%s: %w", text.name, err)
		}
		*text.into = expanded
	}
	add := func(name string, i int, pattern string, exclude bool) error {
		expanded, err := r.inOuter(pattern, outer)
		// As in Argo CD, a leading slash is the root of the repository.
		expanded = strings.TrimPrefix(expanded, "/")
		if err == nil && (expanded == "" || len(expanded) > 1024) {
			err = errors.New("the path is empty or has more than 1024 characters")
		}
		if err != nil {
			return at(name, i, err)
		}
		if exclude {
			place.excluded = append(place.excluded, expanded)
		} else {
			place.patterns = append(place.patterns, expanded)
		}
		return nil
	}
	for i, item := range git.Directories {
		if err := add("directories", i, item.Path, item.Exclude); err != nil {
			return place, err
		}
	}
	for i, item := range git.Files {
		if err := add("files", i, item.Path, item.Exclude); err != nil {
			return place, err
		}
	}
	return place, nil
}

// folderSets returns one set for each folder. Exclusions are applied to the
// result, whether they come before or after the pattern that matched.
func (r *runner) folderSets(files *repositoryTree, place gitPlace) ([]map[string]any, error) {
	found := map[string]bool{}
	for _, pattern := range append(slices.Clone(place.patterns), place.excluded...) {
		// path.Match reports a bad pattern only when it reaches it.
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("directories: the pattern %.80q cannot be read: see Go's path.Match", pattern)
		}
	}
	for _, pattern := range place.patterns {
		if err := r.folders(files, "", strings.Split(path.Clean(pattern), "/"), found); err != nil {
			return nil, err
		}
	}
	var sets []map[string]any
	// Sorted, so that the order of Applications does not change between runs.
	for _, folder := range slices.Sorted(maps.Keys(found)) {
		// The patterns were checked above, so that Match cannot fail here.
		excluded := slices.ContainsFunc(place.excluded, func(pattern string) bool {
			matches, _ := path.Match(path.Clean(pattern), folder)
			return matches
		})
		if !excluded {
			params := map[string]any{}
			r.pathParams(params, folder, "", place.prefix)
			sets = append(sets, params)
		}
	}
	return sets, nil
}

// folders finds folders by the parts of a pattern, so that only matching
// branches of the tree are read.
func (r *runner) folders(files *repositoryTree, folder string, parts []string, found map[string]bool) error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	entries, err := files.list(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		// As in Argo CD, hidden folders such as .github never match.
		if entry.Kind != tree.Folder || strings.HasPrefix(entry.Name, ".") {
			continue
		}
		if matches, _ := path.Match(parts[0], entry.Name); !matches {
			continue
		}
		below := path.Join(folder, entry.Name)
		if len(parts) == 1 {
			found[below] = true
		} else if err := r.folders(files, below, parts[1:], found); err != nil {
			return err
		}
	}
	return nil
}

// fileSets returns one set for each object in the files.
func (r *runner) fileSets(files *repositoryTree, place gitPlace) ([]map[string]any, error) {
	found := map[string]bool{}
	for _, pattern := range place.patterns {
		compiled, err := filePattern(pattern)
		if err != nil {
			return nil, err
		}
		if err := r.files(files, compiled.root, func(file string) {
			if compiled.has(file) {
				found[file] = true
			}
		}); err != nil {
			return nil, err
		}
	}
	for _, pattern := range place.excluded {
		compiled, err := filePattern(pattern)
		if err != nil {
			return nil, err
		}
		// Exclusions apply to all patterns, before and after them.
		for file := range found {
			if compiled.has(file) {
				delete(found, file)
			}
		}
	}
	var sets []map[string]any
	for _, file := range slices.Sorted(maps.Keys(found)) {
		// The limit of one file is enforced before it is read.
		content, err := files.Read(file, MaxFile)
		if err != nil {
			return nil, err
		}
		if files.bytes += len(content); files.bytes > maxFiles {
			return nil, fmt.Errorf("the files have more than %d MiB together: write a longer path", maxFiles>>20)
		}
		more, err := r.fileParams(file, content, place.prefix)
		if err != nil {
			return nil, err
		}
		if sets = append(sets, more...); len(sets) > maxSets {
			return nil, errManySets
		}
	}
	return sets, nil
}

// files visits all files below a folder. Links and submodules are left out.
// Hidden folders are included, unlike in folders, as in Argo CD.
func (r *runner) files(files *repositoryTree, folder string, visit func(string)) error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	entries, err := files.list(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		below := path.Join(folder, entry.Name)
		switch entry.Kind {
		// Links could lead out of the repository, and submodules are not
		// fetched.
		case tree.File:
			visit(below)
		case tree.Folder:
			if err := r.files(files, below, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// pathPattern is a pattern of files, and the folder that contains all matches.
type pathPattern struct {
	root    string
	literal string
	pattern glob.Pattern
}

// filePattern parses a pattern as git does: * matches slashes too, and the name
// of a folder matches everything in it. A pattern without wildcards is
// compared as text, because the matcher does not have the rule for folders.
func filePattern(text string) (*pathPattern, error) {
	compiled, err := glob.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	// The fixed beginning of the pattern limits the folders that are read.
	start := text
	if special := strings.IndexAny(text, `*?[{\`); special >= 0 {
		start = text[:special]
	} else {
		literal := path.Clean(text)
		return &pathPattern{root: rootOf(literal), literal: literal}, nil
	}
	return &pathPattern{root: rootOf(start), pattern: compiled}, nil
}

// rootOf returns the folder of a path whose last part may be incomplete.
func rootOf(text string) string {
	folder, _ := path.Split(text)
	return strings.Trim(path.Clean("/"+folder), "/")
}

// has reports whether a file matches.
func (p *pathPattern) has(file string) bool {
	if p.literal != "" {
		return file == p.literal || strings.HasPrefix(file, p.literal+"/")
	}
	return p.pattern.Match(file)
}

// fileParams returns the parameters of one file: an object, or a list of
// objects. The parameters of the path are added last and replace a field "path"
// of the file.
func (r *runner) fileParams(file string, content []byte, prefix string) ([]map[string]any, error) {
	var objects []map[string]any
	one := map[string]any{}
	// JSON is a subset of YAML, so that one parser reads both.
	if err := yaml.Unmarshal(content, &one); err == nil {
		objects = append(objects, one)
	} else if err := yaml.Unmarshal(content, &objects); err != nil {
		return nil, fmt.Errorf("the file %s is neither an object nor a list of objects in YAML or JSON", file)
	}
	sets := make([]map[string]any, 0, len(objects))
	for _, object := range objects {
		params := object
		// An empty document is an object without fields.
		if params == nil {
			params = map[string]any{}
		}
		if !r.goForm {
			params = map[string]any{}
			// Without goTemplate parameters are flat: a.b and not a: {b}.
			flatten(params, "", object)
		}
		folder := path.Dir(file)
		r.pathParams(params, folder, path.Base(file), prefix)
		sets = append(sets, params)
	}
	return sets, nil
}

// pathParams adds the parameters of a path. The name of the file is empty for a
// folder.
func (r *runner) pathParams(params map[string]any, folder, file, prefix string) {
	segments := strings.Split(folder, "/")
	if r.goForm {
		// The names are those that Argo CD documents.
		about := map[string]any{
			"path": folder, "basename": path.Base(folder), "basenameNormalized": normalized(path.Base(folder)), "segments": segments,
		}
		if file != "" {
			about["filename"], about["filenameNormalized"] = file, normalized(file)
		}
		if prefix != "" {
			params[prefix] = map[string]any{"path": about}
		} else {
			params["path"] = about
		}
		return
	}
	name := joined(prefix, "path")
	params[name] = folder
	params[name+".basename"] = path.Base(folder)
	params[name+".basenameNormalized"] = normalized(path.Base(folder))
	if file != "" {
		params[name+".filename"] = file
		params[name+".filenameNormalized"] = normalized(file)
	}
	for i, segment := range segments {
		// path[0] is the first segment of the path.
		params[fmt.Sprintf("%s[%d]", name, i)] = segment
	}
}

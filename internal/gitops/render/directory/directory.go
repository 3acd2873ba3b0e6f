// Package directory renders a folder of manifests: YAML, JSON and Jsonnet
// files.
//
// It promises Argo CD's rules for which files are read: all of the folder, or
// with recurse of those below too; include and exclude are patterns of the path
// from the folder, whose * takes slashes as well; a file with the mark
// "+argocd:skip-file-rendering" is left out; YAML that is no manifest is left
// out with a warning, and one that looks like a manifest and cannot be read is
// an error. Files are read in the order of their names.
//
// It refuses files outside of the repository, imports of Jsonnet included.
package directory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/glob"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
)

// Render adds the objects of the folder of a source. Both patterns are compiled
// before the first file is read, so that a malformed one fails even in an empty
// folder.
func Render(files job.Files, source *job.Source, into *manifest.Set) error {
	options := source.Source.Directory
	if options == nil {
		options = &v1alpha1.ApplicationSourceDirectory{}
	}
	// The zero options read the folder itself and all supported files.
	w := &walk{files: files, root: source.Path, recurse: options.Recurse, into: into}
	if options.Jsonnet != nil {
		w.jsonnet = *options.Jsonnet
	}
	var err error
	if w.include, err = pattern("include", options.Include); err != nil {
		return err
	}
	if w.exclude, err = pattern("exclude", options.Exclude); err != nil {
		return err
	}
	if err := w.folder("", 0); err != nil {
		return err
	}
	if len(w.missing) > 0 {
		return &job.Incomplete{Missing: w.missing}
	}
	return nil
}

// pattern compiles a pattern; no pattern is nil.
func pattern(field, text string) (*glob.Pattern, error) {
	if text == "" {
		return nil, nil
	}
	compiled, err := glob.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("directory.%s: %w", field, err)
	}
	return &compiled, nil
}

// walk reads a folder.
type walk struct {
	files            job.Files
	root             string
	recurse          bool
	include, exclude *glob.Pattern
	jsonnet          v1alpha1.ApplicationSourceJsonnet
	into             *manifest.Set
	// missing is what the job does not have. It is collected, so that all of it is
	// fetched at once.
	missing []job.MissingDependency
}

// maxDepth bounds how deep folders are read. Links to folders are not followed
// by the walk, so that a cycle cannot reach it.
const maxDepth = 64

// folder reads what is in a folder, which is named from the root.
func (w *walk) folder(name string, depth int) error {
	if depth > maxDepth {
		return refusal.New("", refusal.TooMany, "%s is more than %d folders deep", quoted(name), maxDepth)
	}
	entries, err := w.files.List(path.Join(w.root, name))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		below := path.Join(name, entry.Name)
		switch entry.Kind {
		case tree.Folder, tree.Submodule:
			// A submodule is refused when it is read: without what is in it, the
			// objects would not be complete, and the missing ones pruned.
			if w.recurse {
				err = w.folder(below, depth+1)
			}
		case tree.File, tree.Link:
			err = w.file(below, entry.Kind == tree.Link)
		}
		if incomplete, ok := errors.AsType[*job.Incomplete](err); ok {
			w.missing = append(w.missing, incomplete.Missing...)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// file reads a file if it is one to be read. The patterns are checked before
// the content is read: an excluded file may be one that is refused, such as a
// pointer of Git LFS.
func (w *walk) file(name string, link bool) error {
	extension := path.Ext(name)
	switch extension {
	case ".yaml", ".yml", ".json", ".jsonnet":
	default:
		return nil
	}
	if name == path.Base(name) && strings.HasPrefix(name, ".argocd-source") {
		return nil // options of the application, which were read before
	}
	if w.exclude != nil && w.exclude.Match(name) || w.include != nil && !w.include.Match(name) {
		return nil
	}
	where := path.Join(w.root, name)
	if link {
		entry, err := w.files.Stat(where)
		if errors.Is(err, fs.ErrNotExist) {
			w.into.Warn("%s is a link to something that does not exist; it is left out", where)
			return nil
		}
		if err != nil || entry.Kind == tree.Folder {
			return err
		}
	}
	text, err := w.files.Read(where)
	if err != nil {
		return err
	}
	// The mark counts anywhere in the file, as in Argo CD.
	if bytes.Contains(text, []byte(manifest.SkipMark)) {
		return nil
	}
	switch extension {
	case ".json":
		return w.json(where, text)
	case ".jsonnet":
		return w.evaluate(where)
	}
	return w.yaml(where, text)
}

// yaml adds the objects of a YAML file. A file that is no manifest is a
// warning, because folders contain values files and the like; a file that was
// meant as one is an error, because leaving it out would prune its objects.
func (w *walk) yaml(where string, text []byte) error {
	added, err := w.into.AddYAML(where, text)
	// Refusals and limits fail the render for any file: they are never about
	// content that is no manifest.
	var refused *refusal.Refusal
	if err == nil || errors.As(err, &refused) || errors.Is(err, manifest.ErrTooLarge) {
		return err
	}
	var twice *manifest.DuplicateKeyError
	var versionless *manifest.NoVersionError
	if added > 0 || manifest.LooksLikeManifest(text) || errors.As(err, &twice) || errors.As(err, &versionless) {
		return err
	}
	w.into.Warn("%s is not a manifest and is left out", where)
	return nil
}

// json reads a file with one object.
func (w *walk) json(where string, text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	var first json.RawMessage
	if err := decoder.Decode(&first); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // empty
		}
		return fmt.Errorf("%s is not JSON: %w", where, err)
	}
	// A second object would be lost without a word.
	if decoder.More() {
		return fmt.Errorf("%s has more than one object: a JSON file has one, use a List or several files", where)
	}
	if err := manifest.CheckJSONKeys(where, first); err != nil {
		return err
	}
	return w.into.AddJSON(where, first)
}

// quoted is a path for people. Names in Git are bytes and need not be UTF-8,
// which messages have to be.
func quoted(name string) string {
	if name == "" {
		return `"."`
	}
	return `"` + strings.ToValidUTF8(name, "?") + `"`
}

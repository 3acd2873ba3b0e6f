package promotion

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/imageupdate/edit"
)

// template is which fields of which files move. Files are paths below that of an
// Application, and the same paths are used for source and target: environments are
// folders, or branches, of the same structure.
type template struct {
	files       map[string][]edit.Selector
	versionFile string
	version     edit.Selector
}

// compileTemplate reads the paths of a template. A template without files would copy
// everything, which is refused: an environment has settings of its own.
func compileTemplate(contents v1beta1.TemplateContents) (template, error) {
	made := template{files: map[string][]edit.Selector{}}
	if len(contents.Promotion) == 0 {
		return made, refusal.New("spec.promotion", refusal.Required, "no template names files for it: name the files and fields that are promoted")
	}
	for file, fields := range contents.Promotion {
		if err := checkFile(file); err != nil {
			return made, err
		}
		for i, text := range fields.JSONPaths {
			selector, err := edit.ParseSelector(text)
			if err != nil {
				return made, refusal.New(fmt.Sprintf("spec.promotion.%s.jsonPaths[%d]", file, i), refusal.Invalid, "%v", err)
			}
			made.files[file] = append(made.files[file], selector)
		}
	}
	if from := contents.VersionSource; from != nil {
		if err := checkFile(from.File); err != nil {
			return made, err
		}
		selector, err := edit.ParseSelector(from.JSONPath)
		if err != nil {
			return made, refusal.New("spec.versionSource.jsonPath", refusal.Invalid, "%v", err)
		}
		made.versionFile, made.version = from.File, selector
	}
	return made, nil
}

// checkFile refuses paths that leave the folder of the Application.
func checkFile(name string) error {
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../") {
		return refusal.New("spec.promotion", refusal.Invalid, "the file %.80q has to be below the path of the Application, without .. and double slashes", name)
	}
	return nil
}

// names are the files, sorted.
func (t *template) names() []string { return slices.Sorted(maps.Keys(t.files)) }

// reader reads a file of an Application; false if there is none.
type reader func(file string) ([]byte, bool, error)

// writer replaces a file of an Application.
type writer func(file string, content []byte) error

// copy sets the fields of a target to the values of the source, and returns the files
// that changed. Files that the source does not have stay as they are. With write nil
// nothing is written.
func (t *template) copy(from, to reader, write writer) (changed []string, err error) {
	// Nothing is copied to a file by its name alone: the fields decide, so that a template
	// that selects nothing is noticed.
	found := 0
	for _, file := range t.names() {
		given, exists, err := from(file)
		if err != nil {
			return nil, err
		}
		// Documented templates name requirements.yaml, which most charts do not have.
		if !exists {
			continue
		}
		before, exists, err := to(file)
		if err != nil {
			return nil, err
		}
		if !exists {
			return nil, refusal.New(file, refusal.NotFound, "the target has no such file: add it once by hand")
		}
		after, count, err := edit.Copy(before, given, t.files[file])
		if err != nil {
			return nil, refusal.New(file, refusal.Invalid, "%v", err)
		}
		found += count
		if slices.Equal(before, after) {
			continue
		}
		changed = append(changed, file)
		if write != nil {
			if err := write(file, after); err != nil {
				return nil, err
			}
		}
	}
	if found == 0 {
		return nil, refusal.New("spec.promotion", refusal.NotFound, "the source has none of the fields of the template")
	}
	return changed, nil
}

// versionOf reads the version of the source; empty if it has none.
func (t *template) versionOf(from reader) string {
	if t.versionFile == "" {
		return ""
	}
	text, exists, err := from(t.versionFile)
	if err != nil || !exists {
		return ""
	}
	version, _ := edit.Lookup(text, t.version) // people see the commit otherwise
	return refusal.Shorten(version, maxVersion)
}

// valuesOf returns the values of the source that move, for a comparison.
func (t *template) valuesOf(from reader) (string, error) {
	var all strings.Builder
	for _, file := range t.names() {
		text, exists, err := from(file)
		if err != nil {
			return "", err
		}
		if !exists {
			continue
		}
		values, err := edit.Selected(text, t.files[file])
		if err != nil {
			return "", refusal.New(file, refusal.Invalid, "%v", err)
		}
		fmt.Fprintf(&all, "%q: %s\n", file, values)
	}
	return all.String(), nil
}

// maxVersion bounds the version in a status.
const maxVersion = 128

// isMissing reports whether a file does not exist.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

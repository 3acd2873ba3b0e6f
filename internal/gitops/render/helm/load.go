package helm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/ignore"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/tree"
)

// maxDepth bounds the folders of a chart. It also ends the recursion of ** in
// value files.
const maxDepth = 32

// load reads a chart and what it depends on. Rules of .helmignore come before
// Helm's defaults, as in Helm's own loader. The chart is not cached: while the
// files that a render has read are the same, it is not repeated at all.
func (l *chartLoader) load(files job.Files, folder string, depth int) (*chart.Chart, error) {
	if depth > maxNested {
		return nil, refusal.New("", refusal.TooMany, "charts depend on each other more than %d deep, or in a circle", maxNested)
	}
	reader := chartReader{files: files, root: folder, rules: ignore.Empty()}
	text, err := files.Read(path.Join(folder, ignore.HelmIgnore))
	switch {
	case err == nil:
		if reader.rules, err = ignore.Parse(bytes.NewReader(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(folder, ignore.HelmIgnore), err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	// Helm's defaults ignore dot files in templates.
	reader.rules.AddDefaults()
	if err := reader.folder("", 0); err != nil {
		return nil, err
	}
	if err := reader.checkPointers(); err != nil {
		return nil, err
	}
	loaded, err := loader.LoadFiles(reader.found)
	if err != nil {
		return nil, fmt.Errorf("the chart in %q: %w", nameOf(folder), err)
	}
	return loaded, l.build(chartPlace{files, folder, depth}, loaded)
}

// chartReader collects the files of a chart.
type chartReader struct {
	files job.Files
	root  string
	rules *ignore.Rules
	found []*archive.BufferedFile
	// pointers are files that are pointers of Git LFS and that Helm itself does
	// not read.
	pointers []string
	// missing are files of Git LFS that the job does not have.
	missing []job.MissingDependency
}

// folder reads a folder, which is named from the chart. Links are followed.
func (r *chartReader) folder(name string, depth int) error {
	if depth > maxDepth {
		return refusal.New("", refusal.TooMany, "the chart in %q has folders more than %d deep", nameOf(r.root), maxDepth)
	}
	entries, err := r.files.List(join(r.root, name))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		below := join(name, entry.Name)
		kind := entry.Kind
		// An ignored link is not resolved: it may lead anywhere.
		if kind == tree.Link && !r.rules.Ignore(below, fileInfo(entry)) {
			target, err := r.files.Stat(join(r.root, below))
			if err != nil {
				return err
			}
			kind = target.Kind
		}
		// The rules for folders, those with a trailing slash, apply to a link
		// by its target.
		entry.Kind = kind
		if r.rules.Ignore(below, fileInfo(entry)) {
			continue
		}
		if kind == tree.Folder {
			err = r.folder(below, depth+1)
		} else {
			err = r.file(below)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// file adds a file to the chart. A pointer of Git LFS that Helm does not read
// itself is postponed to checkPointers; one that it reads and the job does not
// have is noted, so that all of them are fetched at once.
func (r *chartReader) file(name string) error {
	text, err := job.Peek(r.files, join(r.root, name))
	if err != nil && isPointer(err) {
		if isRead(name) {
			return r.needPointer(name)
		}
		r.pointers = append(r.pointers, name)
		return nil
	}
	if err != nil {
		return err
	}
	// Helm's own loader drops the byte order mark too.
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	r.found = append(r.found, &archive.BufferedFile{Name: name, Data: text})
	return nil
}

// isPointer reports whether an error is that of a file of Git LFS whose content is
// not there.
func isPointer(err error) bool {
	if incomplete, ok := errors.AsType[*job.Incomplete](err); ok {
		return incomplete.Missing[0].OID != ""
	}
	refused, ok := errors.AsType[*refusal.Refusal](err)
	return ok && refused.Reason == tree.GitLFSPointer
}

// needPointer notes that the content of a file of Git LFS is missing. One that
// cannot be fetched is an error.
func (r *chartReader) needPointer(name string) error {
	_, err := r.files.Read(join(r.root, name))
	if incomplete, ok := errors.AsType[*job.Incomplete](err); ok {
		r.missing = append(r.missing, incomplete.Missing...)
		return nil
	}
	return err
}

// isRead reports whether Helm reads a file of a chart by itself. Other files,
// such as pictures, are there for templates that read them with .Files. Names
// in charts/ are reduced to those within the subchart first, at any depth.
func isRead(name string) bool {
	for {
		below, ok := strings.CutPrefix(name, "charts/")
		if !ok {
			break
		}
		if _, below, ok = strings.Cut(below, "/"); !ok {
			return true // a chart as an archive
		}
		name = below
	}
	switch name {
	case "Chart.yaml", "Chart.lock", "values.yaml", "values.schema.json", "requirements.yaml", "requirements.lock":
		return true
	}
	return strings.HasPrefix(name, "templates/") || strings.HasPrefix(name, "crds/")
}

// checkPointers is the error of files of Git LFS whose content is missing. Those
// that only templates can read are needed if there is a template that reads such
// files. Which one it reads cannot be seen before it is executed. A chart whose
// templates read no files renders correctly without the content.
func (r *chartReader) checkPointers() error {
	if slices.ContainsFunc(r.found, func(file *archive.BufferedFile) bool {
		return strings.Contains(file.Name, "templates/") && bytes.Contains(file.Data, []byte(".Files"))
	}) {
		for _, name := range r.pointers {
			if err := r.needPointer(name); err != nil {
				return err
			}
		}
	}
	if len(r.missing) > 0 {
		return &job.Incomplete{Missing: r.missing}
	}
	return nil
}

// join does not clean paths: a link in them decides where .. leads.
func join(folder, name string) string {
	switch {
	case folder == "":
		return name
	case name == "":
		return folder
	}
	return folder + "/" + name
}

// nameOf is a folder for messages.
func nameOf(folder string) string {
	if folder == "" {
		return "."
	}
	return folder
}

// entryInfo adapts an entry to fs.FileInfo for .helmignore.
type entryInfo struct {
	entry tree.Entry
}

// fileInfo returns an entry as the interface that the ignore rules need.
func fileInfo(entry tree.Entry) fs.FileInfo { return entryInfo{entry} }

// The ignore rules read the name and whether it is a folder; the rest completes
// the interface.
func (i entryInfo) Name() string       { return i.entry.Name }
func (i entryInfo) Size() int64        { return i.entry.Size }
func (i entryInfo) ModTime() time.Time { return time.Time{} }
func (i entryInfo) IsDir() bool        { return i.entry.Kind == tree.Folder }
func (i entryInfo) Sys() any           { return nil }

func (i entryInfo) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

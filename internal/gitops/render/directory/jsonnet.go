package directory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/google/go-jsonnet"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/job"
)

// evaluate adds what a Jsonnet file evaluates to: an object or a list of
// objects.
func (w *walk) evaluate(where string) error {
	// A new VM for each file: its cache of imports must not outlive the
	// revision.
	vm := jsonnet.MakeVM()
	vm.SetTraceOut(io.Discard)
	importer := &importer{files: w.files, libraries: []string{w.root}, cache: map[string]imported{}}
	for _, library := range w.jsonnet.Libs {
		// Libraries are named from the root of the repository.
		importer.libraries = append(importer.libraries, strings.TrimPrefix(path.Clean("/"+library), "/"))
	}
	vm.Importer(importer)
	for _, variable := range w.jsonnet.ExtVars {
		if variable.Code {
			vm.ExtCode(variable.Name, variable.Value)
		} else {
			vm.ExtVar(variable.Name, variable.Value)
		}
	}
	for _, argument := range w.jsonnet.TLAs {
		if argument.Code {
			vm.TLACode(argument.Name, argument.Value)
		} else {
			vm.TLAVar(argument.Name, argument.Value)
		}
	}
	text, err := vm.EvaluateFile(where)
	if err != nil {
		// A refusal has its own kind and goes before the text of the evaluator.
		if importer.refused != nil {
			return importer.refused
		}
		return fmt.Errorf("%s: %s", where, job.Shorten(err.Error()))
	}
	return w.result(where, []byte(text))
}

// result adds an object or each of a list. A list that contains a list is an
// error of AddJSON: only one level is unpacked.
func (w *walk) result(where string, text []byte) error {
	var list []json.RawMessage
	if json.Unmarshal(text, &list) != nil {
		return w.into.AddJSON(where, text)
	}
	for i, object := range list {
		if err := w.into.AddJSON(fmt.Sprintf("element %d of %s", i+1, where), object); err != nil {
			return err
		}
	}
	return nil
}

// importer gives Jsonnet the files of the repository.
type importer struct {
	files     job.Files
	libraries []string
	cache     map[string]imported
	// refused is the first import that is never done. Jsonnet makes text of
	// errors, and what they are would be lost.
	refused error
}

// imported is a cached import. Jsonnet requires that one path always gives the
// same contents.
type imported struct {
	contents jsonnet.Contents
	err      error
}

// Import looks beside the importing file, and then in the libraries; the last
// one first, as Jsonnet's own importer does.
func (i *importer) Import(from, name string) (jsonnet.Contents, string, error) {
	if strings.HasPrefix(name, "/") {
		i.refuse(refusal.New("", refusal.NotAllowed, "%s imports %s: only files of the repository can be imported, by relative paths", from, name))
		return jsonnet.Contents{}, "", i.refused
	}
	folders := []string{path.Dir(from)}
	if from == "" {
		folders = []string{""}
	}
	for at := len(i.libraries) - 1; at >= 0; at-- {
		folders = append(folders, i.libraries[at])
	}
	var first error
	for _, folder := range folders {
		// The path is not cleaned: a link in it decides where .. leads.
		at := strings.TrimPrefix(folder+"/"+name, "/")
		if folder == "." {
			at = name
		}
		found := i.read(at)
		if found.err == nil {
			return found.contents, at, nil
		}
		if !errors.Is(found.err, fs.ErrNotExist) && first == nil {
			first = found.err
		}
	}
	if first != nil {
		i.refuse(first)
		return jsonnet.Contents{}, "", first
	}
	return jsonnet.Contents{}, "", fmt.Errorf("%s cannot be imported: no such file beside %s or in the libraries", name, from)
}

// refuse keeps the first refusal.
func (i *importer) refuse(err error) {
	if i.refused == nil {
		i.refused = err
	}
}

// read reads a file once. Failures are cached as well: an import that is tried
// in several folders would otherwise read each of them again.
func (i *importer) read(at string) imported {
	found, ok := i.cache[at]
	if !ok {
		var text []byte
		if text, found.err = i.files.Read(at); found.err == nil {
			found.contents = jsonnet.MakeContentsRaw(text)
		}
		i.cache[at] = found
	}
	return found
}

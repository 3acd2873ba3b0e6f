package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/must"
)

const root = "../../.."

// TestFileIsCurrent: the packed definitions are those of the module. The bytes depend on
// the compressor, so that the texts are compared.
func TestFileIsCurrent(t *testing.T) {
	packed := must.Get(os.ReadFile(filepath.Join(root, file)))(t)
	text := must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(packed)))(t)))(t)
	wanted := must.Get(definitions(root))(t)
	if len(wanted) == 0 || !bytes.Equal(text, wanted) {
		t.Errorf("%s is out of date: run make generate", file)
	}
	generated := must.Get(generate(root))(t)[file]
	again := must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(generated)))(t)))(t)
	if !bytes.Equal(again, wanted) {
		t.Error("what is generated is not the text of the module")
	}
}

// Gatewaycrds packs the CustomResourceDefinitions of Gateway API for the program,
// from the module that the edge is built with. `make generate` runs it.
//
// They are the standard channel without its admission policy, unchanged. A test
// fails when the file in the repository has others than the module.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"slipway.dev/slipway/internal/tools/generator"
)

const (
	module = "sigs.k8s.io/gateway-api"
	// pattern has the admission policy, too: it is for those who install by hand.
	pattern = "config/crd/standard/gateway.networking.k8s.io_*.yaml"
	policy  = "_vap_"
	file    = "api/gatewayapi/definitions.yaml.gz"
)

func main() { generator.Main("gatewaycrds", generate) }

// generate returns the file by its path in the repository.
func generate(root string) (map[string][]byte, error) {
	text, err := definitions(root)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := writer.Write(text); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return map[string][]byte{file: packed.Bytes()}, nil
}

// definitions returns those of the module as one YAML text.
func definitions(root string) ([]byte, error) {
	command := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	command.Dir, command.Stderr = root, os.Stderr
	dir, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("find the module %s: %w", module, err)
	}
	// Glob sorts the names.
	paths, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), pattern))
	if err != nil {
		return nil, err
	}
	var texts [][]byte
	for _, path := range paths {
		if strings.Contains(path, policy) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		texts = append(texts, bytes.TrimSpace(text))
	}
	return bytes.Join(texts, []byte("\n---\n")), nil
}

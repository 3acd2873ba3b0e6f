// Command protogen generates code for the messages in internal/wire: protobuf
// types with Connect clients and handlers in Go, and the same in TypeScript for
// the console. It compiles the .proto files itself and runs the plugins that
// go.mod and web/package.json pin, so that neither protoc nor buf has to be
// installed.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	"slipway.dev/slipway/internal/tools/generator"
)

const (
	// module is the prefix of Go packages in .proto files, which plugins strip
	// from the paths of generated files.
	module = "slipway.dev/slipway"
	// console is the folder of the generated TypeScript.
	console = "web/src/api/gen"
	// consoleGenerator is the plugin for TypeScript, which npm installs.
	consoleGenerator = "web/node_modules/.bin/protoc-gen-es"
	// argoCD has the messages of Argo CD's API.
	argoCD = "internal/wire/argocd"
)

// main generates into --out, which differs from --root only in the test that
// compares the result with the repository.
func main() {
	root := flag.String("root", ".", "root of the repository")
	out := flag.String("out", ".", "root of the folder that files are written to")
	flag.Parse()
	if err := run(context.Background(), *root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// run compiles the .proto files once and passes the same request to each
// plugin.
func run(ctx context.Context, root, out string) error {
	source := filepath.Join(root, "internal/wire/proto")
	names, err := protoFiles(source)
	if err != nil {
		return err
	}
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{source}}),
		// Source info has the comments, which plugins copy to the code.
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		ProtoFile:      descriptors(files),
		Parameter:      proto.String("module=" + module),
	}
	for _, generator := range []string{"protoc-gen-go", "protoc-gen-connect-go"} {
		if err := generate(exec.CommandContext(ctx, "go", "tool", generator), request, out); err != nil {
			return fmt.Errorf("%s: %w", generator, err)
		}
	}
	// Go comes first, so that without npm the Go code is still generated.
	script := filepath.Join(root, filepath.FromSlash(consoleGenerator))
	if _, err := os.Stat(script); err != nil {
		return fmt.Errorf("the generator for the console is missing: run `make console-modules` first: %w", err)
	}
	// Each plugin has its own parameters; the descriptors are the same.
	request.Parameter = proto.String("target=ts")
	if err := generate(exec.CommandContext(ctx, script), request, filepath.Join(out, filepath.FromSlash(console))); err != nil {
		return err
	}
	return describe(ctx, filepath.Join(root, argoCD), filepath.Join(out, argoCD))
}

// describe compiles the .proto files of a folder to descriptors alone: the
// program makes messages from them, and there is no code.
func describe(ctx context.Context, folder, out string) error {
	names, err := protoFiles(folder)
	if err != nil {
		return err
	}
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{ImportPaths: []string{folder}}}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return err
	}
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(&descriptorpb.FileDescriptorSet{File: descriptors(files)})
	if err != nil {
		return err
	}
	return generator.Write(out, map[string][]byte{"messages.binpb": content})
}

// protoFiles returns the .proto files below a folder, relative to it and
// sorted, so that the request is deterministic.
func protoFiles(folder string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".proto") {
			return err
		}
		name, err := filepath.Rel(folder, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	sort.Strings(names)
	return names, err
}

// descriptors returns the files and all of their imports in topological order,
// as the plugin protocol requires: a file comes after its imports.
func descriptors(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var all []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(file protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			// Imports come before the file, and shared ones only once.
			add(file.Imports().Get(i).FileDescriptor)
		}
		all = append(all, protoutil.ProtoFromFileDescriptor(file))
	}
	for _, file := range files {
		add(file)
	}
	return all
}

// generate runs one plugin with the request on standard input, and writes the
// files of its response. A plugin reports errors in .proto files in the
// response and not by its exit code.
func generate(command *exec.Cmd, request *pluginpb.CodeGeneratorRequest, out string) error {
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return err
	}
	if response.GetError() != "" {
		return fmt.Errorf("%s", response.GetError())
	}
	// The plugin returns the contents; the caller of a plugin writes them.
	files := map[string][]byte{}
	for _, file := range response.GetFile() {
		files[file.GetName()] = []byte(file.GetContent())
	}
	return generator.Write(out, files)
}

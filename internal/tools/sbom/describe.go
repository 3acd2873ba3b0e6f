package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// describe returns the bill of materials without a time. The subject is the
// program, or the image with the program as its first component.
func describe(given options) (*cdx.BOM, error) {
	program, parts, err := describeProgram(given)
	if err != nil {
		return nil, err
	}
	bom := cdx.NewBOM()
	dependencies := []cdx.Dependency{dependsOn(program, parts)}
	if given.image == "" {
		bom.Metadata = &cdx.Metadata{Component: &program}
	} else {
		contents := []cdx.Component{program}
		if given.authorities != "" {
			authorities, err := describeAuthorities(given.authorities)
			if err != nil {
				return nil, err
			}
			contents = append(contents, authorities)
		}
		image := cdx.Component{BOMRef: given.image, Type: cdx.ComponentTypeContainer, Name: given.image, Version: given.version}
		bom.Metadata = &cdx.Metadata{Component: &image}
		dependencies = append(dependencies, dependsOn(image, contents))
		parts = append(contents, parts...)
	}
	bom.Components, bom.Dependencies = &parts, &dependencies
	return bom, nil
}

// dependsOn lists the parts of a component. Build information has no edges
// between modules, so they all belong to the program.
func dependsOn(whole cdx.Component, parts []cdx.Component) cdx.Dependency {
	refs := make([]string, 0, len(parts))
	for _, part := range parts {
		refs = append(refs, part.BOMRef)
	}
	return cdx.Dependency{Ref: whole.BOMRef, Dependencies: &refs}
}

// describeProgram returns the program, and its modules and npm packages.
func describeProgram(given options) (cdx.Component, []cdx.Component, error) {
	info, err := buildinfo.ReadFile(given.binary)
	if err != nil {
		return cdx.Component{}, nil, fmt.Errorf("read the build information: %w", err)
	}
	parts, err := goModules(info)
	if err != nil {
		return cdx.Component{}, nil, err
	}
	if given.console != "" {
		packages, err := npmPackages(given.console)
		if err != nil {
			return cdx.Component{}, nil, err
		}
		parts = append(parts, packages...)
	}
	program := component("golang", info.Main.Path, given.version, []string{"Apache-2.0"})
	program.Type, program.Name = cdx.ComponentTypeApplication, filepath.Base(given.binary)
	program.Hashes, err = fileHash(given.binary)
	return program, parts, err
}

// component describes a package. Its package URL is unique, and so it is the
// reference too.
func component(kind, name, version string, licences []string) cdx.Component {
	made := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: packageURL(kind, name, version)}
	made.BOMRef = made.PackageURL
	if len(licences) == 0 {
		return made
	}
	made.Licenses = &cdx.Licenses{}
	for _, one := range licences {
		choice := cdx.LicenseChoice{License: &cdx.License{ID: one}}
		if strings.ContainsRune(one, ' ') { // an expression such as (MIT OR Apache-2.0)
			choice = cdx.LicenseChoice{Expression: one}
		}
		*made.Licenses = append(*made.Licenses, choice)
	}
	return made
}

// packageURL follows https://github.com/package-url/purl-spec, which requires
// lower case for Go modules and percent-encoding of "@" and "+".
func packageURL(kind, name, version string) string {
	if kind == "golang" {
		name = strings.ToLower(name)
	}
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.QueryEscape(parts[i])
	}
	return "pkg:" + kind + "/" + strings.Join(parts, "/") + "@" + url.QueryEscape(version)
}

// goModules returns the modules that are linked into the program, and Go's
// standard library, which has vulnerabilities of its own.
func goModules(info *debug.BuildInfo) ([]cdx.Component, error) {
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("find the module cache: %w", err)
	}
	// The version can be followed by the experiments of the toolchain.
	release, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	modules := []cdx.Component{component("golang", "stdlib", release, []string{"BSD-3-Clause"})}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		one := component("golang", module.Path, module.Version, moduleLicences(strings.TrimSpace(string(cache)), module))
		if module.Sum != "" {
			// The sum of go.sum is of a list of files, so it is not a hash of the component.
			one.Properties = &[]cdx.Property{{Name: "go:sum", Value: module.Sum}}
		}
		modules = append(modules, one)
	}
	return modules, nil
}

// npmPackages returns the packages that the console is built of. The bundler
// may leave out some of them; packages for development are not listed.
func npmPackages(lockfile string) ([]cdx.Component, error) {
	text, err := os.ReadFile(lockfile)
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, License, Integrity string
			Dev, DevOptional            bool
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, fmt.Errorf("read %s: %w", lockfile, err)
	}
	var packages []cdx.Component
	for place, one := range lock.Packages {
		// A nested copy is below the folder of another package. The console
		// itself has the place "".
		at := strings.LastIndex(place, "node_modules/")
		if at < 0 || one.Dev || one.DevOptional {
			continue
		}
		var licences []string
		if one.License != "" {
			licences = []string{one.License}
		}
		made := component("npm", place[at+len("node_modules/"):], one.Version, licences)
		sum, isSHA512 := strings.CutPrefix(one.Integrity, "sha512-")
		if raw, err := base64.StdEncoding.DecodeString(sum); isSHA512 && err == nil {
			made.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA512, Value: hex.EncodeToString(raw)}}
		}
		packages = append(packages, made)
	}
	slices.SortFunc(packages, func(a, b cdx.Component) int { return cmp.Compare(a.PackageURL, b.PackageURL) })
	// Two nested copies of one version are one component: references are unique.
	return slices.CompactFunc(packages, func(a, b cdx.Component) bool { return a.PackageURL == b.PackageURL }), nil
}

// describeAuthorities returns the CA bundle with the version of the Debian
// package that it comes from. Other systems have no package for it here, and
// the hash identifies the file.
func describeAuthorities(name string) (cdx.Component, error) {
	made := component("generic", "ca-certificates", "unknown", nil)
	if version, err := exec.Command("dpkg-query", "--show", "--showformat", "${Version}", "ca-certificates").Output(); err == nil {
		made = component("deb", "debian/ca-certificates", string(version), nil)
	}
	made.Type, made.Name = cdx.ComponentTypeFile, "ca-certificates.crt"
	var err error
	made.Hashes, err = fileHash(name)
	return made, err
}

// fileHash returns the SHA-256 of a file.
func fileHash(name string) (*[]cdx.Hash, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(content))}}, nil
}

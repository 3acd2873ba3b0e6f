package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"slipway.dev/slipway/internal/must"
)

// described writes the bill of materials of an image with this test as its
// program and the real console, and returns the file.
func described(t *testing.T) (options, []byte) {
	t.Helper()
	program, err := os.Executable()
	must.Do(t, err)
	authorities := filepath.Join(t.TempDir(), "authorities.crt")
	must.Do(t, os.WriteFile(authorities, []byte("a bundle"), 0o600))
	given := options{
		out: filepath.Join(t.TempDir(), "bill.cdx.json"), binary: program, version: "v1.2.3+local",
		console: "../../../web/package-lock.json", authorities: authorities, image: "slipway.dev/slipway:v1.2.3",
	}
	must.Do(t, run(given))
	written, err := os.ReadFile(given.out)
	must.Do(t, err)
	return given, written
}

// TestBillOfAnImage finds every kind of component, and references that lead to
// one of them.
func TestBillOfAnImage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	given, written := described(t)
	var bom cdx.BOM
	must.Do(t, cdx.NewBOMDecoder(bytes.NewReader(written), cdx.BOMFileFormatJSON).Decode(&bom))
	if bom.Metadata.Timestamp != "2023-11-14T22:13:20Z" || bom.Metadata.Component.Name != given.image || bom.Metadata.Component.Type != cdx.ComponentTypeContainer {
		t.Errorf("the subject is %+v of %s", bom.Metadata.Component, bom.Metadata.Timestamp)
	}
	byRef := map[string]cdx.Component{}
	for _, one := range *bom.Components {
		if _, twice := byRef[one.BOMRef]; twice || one.PackageURL == "" || one.Version == "" {
			t.Errorf("%q occurs twice or is incomplete: %+v", one.BOMRef, one)
		}
		byRef[one.BOMRef] = one
	}
	for ref, licence := range map[string]string{
		"pkg:golang/github.com/cyclonedx/cyclonedx-go@v0.12.0": "Apache-2.0", // in the cache as !cyclone!d!x
		"pkg:golang/stdlib@1.":                                 "BSD-3-Clause",
		"pkg:npm/react@":                                       "MIT",
		"pkg:npm/%40bufbuild/protobuf@":                        "(Apache-2.0 AND BSD-3-Clause)",
		"pkg:golang/slipway.dev/slipway@v1.2.3%2Blocal":        "Apache-2.0",
	} {
		at := slices.IndexFunc(*bom.Components, func(one cdx.Component) bool { return strings.HasPrefix(one.BOMRef, ref) })
		if at < 0 {
			t.Errorf("there is no %s", ref)
			continue
		}
		if got := (*(*bom.Components)[at].Licenses)[0]; got.Expression != licence && (got.License == nil || got.License.ID != licence) {
			t.Errorf("%s has the licence %+v, not %s", ref, got, licence)
		}
	}
	for _, absent := range []string{"pkg:npm/vite@", "pkg:npm/%40types/react@"} {
		if bytes.Contains(written, []byte(absent)) {
			t.Errorf("%s is for development and listed", absent)
		}
	}
	content, err := os.ReadFile(given.binary)
	must.Do(t, err)
	contents := (*bom.Components)[:2]
	if sum := fmt.Sprintf("%x", sha256.Sum256(content)); (*contents[0].Hashes)[0].Value != sum {
		t.Errorf("the program is %+v, and its hash %s", contents[0], sum)
	}
	if (*contents[1].Hashes)[0].Value != fmt.Sprintf("%x", sha256.Sum256([]byte("a bundle"))) || !strings.Contains(contents[1].PackageURL, "/ca-certificates@") {
		t.Errorf("the authorities are %+v", contents[1])
	}
	checkDependencies(t, bom, byRef)
}

// checkDependencies follows the references from the image: every component is
// a part of it.
func checkDependencies(t *testing.T, bom cdx.BOM, byRef map[string]cdx.Component) {
	t.Helper()
	reached := 0
	for _, one := range *bom.Dependencies {
		for _, ref := range *one.Dependencies {
			if _, ok := byRef[ref]; !ok {
				t.Errorf("%s depends on %s, which is no component", one.Ref, ref)
			}
			reached++
		}
	}
	if reached != len(byRef) {
		t.Errorf("%d of %d components are reached", reached, len(byRef))
	}
}

// TestSchema validates the file with the schema of CycloneDX, which comes with
// the module of its library.
func TestSchema(t *testing.T) {
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	must.Do(t, err)
	compiler := jsonschema.NewCompiler()
	const base = "http://cyclonedx.org/schema/"
	for id, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "schema", file))
		must.Do(t, err)
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		must.Do(t, err)
		must.Do(t, compiler.AddResource(base+id, schema))
	}
	schema, err := compiler.Compile(base + "bom-1.6.schema.json")
	must.Do(t, err)
	_, written := described(t)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(written))
	must.Do(t, err)
	if err := schema.Validate(document); err != nil {
		t.Error(err)
	}
	document.(map[string]any)["components"].([]any)[0].(map[string]any)["type"] = "no such type"
	if schema.Validate(document) == nil {
		t.Error("the schema accepts everything")
	}
}

// TestSameBillTwice: nothing of the moment is in the file, and without a time it
// is 1970.
func TestSameBillTwice(t *testing.T) {
	given, first := described(t)
	must.Do(t, run(given))
	second, err := os.ReadFile(given.out)
	must.Do(t, err)
	if !bytes.Equal(first, second) || !bytes.Contains(first, []byte(`"timestamp": "1970-01-01T00:00:00Z"`)) {
		t.Error("the same program gives two bills of materials")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err := run(given); err == nil || !strings.Contains(err.Error(), "seconds since 1970") {
		t.Errorf("the error is %v", err)
	}
}

// TestNestedPackages: npm may install two copies of a version, which are one
// component, and its integrity is a hash.
func TestNestedPackages(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "package-lock.json")
	type entry = map[string]any
	text, err := json.Marshal(entry{"packages": entry{
		"":                                  entry{"version": "0.0.0"},
		"node_modules/b":                    entry{"version": "2.0.0", "integrity": "sha512-/wA="},
		"node_modules/@a/a":                 entry{"version": "1.0.0"},
		"node_modules/b/node_modules/@a/a":  entry{"version": "1.0.0"},
		"node_modules/c/node_modules/@a/a":  entry{"version": "1.1.0"},
		"node_modules/for-development":      entry{"version": "3.0.0", "dev": true},
		"node_modules/for-development-only": entry{"version": "3.0.0", "devOptional": true},
	}})
	must.Do(t, err)
	must.Do(t, os.WriteFile(lock, text, 0o600))
	packages, err := npmPackages(lock)
	must.Do(t, err)
	var names []string
	for _, one := range packages {
		names = append(names, one.PackageURL)
	}
	if want := []string{"pkg:npm/%40a/a@1.0.0", "pkg:npm/%40a/a@1.1.0", "pkg:npm/b@2.0.0"}; !slices.Equal(names, want) {
		t.Errorf("the packages are %v", names)
	}
	if hash := (*packages[2].Hashes)[0]; hash.Algorithm != cdx.HashAlgoSHA512 || hash.Value != "ff00" || packages[0].Hashes != nil {
		t.Errorf("the hash is %+v", hash)
	}
}

// TestLicences recognises texts whatever their line breaks are.
func TestLicences(t *testing.T) {
	const bsd = "Redistribution and use in source\n and binary forms, with or without modification, are permitted. "
	const mit = "Permission is hereby granted, free of charge, to any person obtaining a copy. "
	for text, want := range map[string][]string{
		"Apache License\n      Version 2.0, January 2004": {"Apache-2.0"},
		bsd: {"BSD-2-Clause"},
		bsd + "Nor the names be used to endorse or\npromote products": {"BSD-3-Clause"},
		mit: nil, // MIT-0 has no condition
		mit + "The above copyright notice and this permission notice shall be included":                                                      {"MIT"},
		"Mozilla Public License, version 2.0":                                                                                                {"MPL-2.0"},
		"Licensed under the Apache License, Version 2.0. Parts: " + bsd:                                                                      {"Apache-2.0", "BSD-2-Clause"},
		"Permission to use, copy, modify, and distribute this software for any purpose with or without fee is hereby granted, provided that": {"ISC"},
		"All rights reserved.": nil,
	} {
		if got := recognise(text); !slices.Equal(got, want) {
			t.Errorf("%q has %v, not %v", text, got, want)
		}
	}
}

// TestNoProgram: a file without build information cannot be described.
func TestNoProgram(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	must.Do(t, os.WriteFile(text, []byte("no program"), 0o600))
	if err := run(options{out: text + ".json", binary: text, version: "v1"}); err == nil || !strings.Contains(err.Error(), "build information") {
		t.Errorf("the error is %v", err)
	}
	if err := run(options{out: text + ".json", binary: text}); err == nil || !strings.Contains(err.Error(), "--version") {
		t.Errorf("the error is %v", err)
	}
}

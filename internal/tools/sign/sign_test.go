package main

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"

	"slipway.dev/slipway/internal/must"
)

// openssl runs the independent implementation that creates keys and verifies.
func openssl(t *testing.T, words ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "openssl", words...).CombinedOutput()
	return string(out), err
}

// keyPair creates a key of a curve in PKCS #8, and returns the files.
func keyPair(t *testing.T, curve string) (private, public string) {
	t.Helper()
	private, public = filepath.Join(t.TempDir(), "key.pem"), filepath.Join(t.TempDir(), "key.pub")
	if out, err := openssl(t, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:"+curve, "-out", private); err != nil {
		t.Fatal(out)
	}
	if out, err := openssl(t, "pkey", "-in", private, "-pubout", "-out", public); err != nil {
		t.Fatal(out)
	}
	return private, public
}

// verified returns whether openssl accepts a signature in base64.
func verified(t *testing.T, public, signature string, text []byte) bool {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(signature)
	must.Do(t, err)
	file, signed := filepath.Join(t.TempDir(), "signature"), filepath.Join(t.TempDir(), "signed")
	must.Do(t, os.WriteFile(file, raw, 0o600))
	must.Do(t, os.WriteFile(signed, text, 0o600))
	out, err := openssl(t, "dgst", "-sha256", "-verify", public, "-signature", file, signed)
	return err == nil && strings.Contains(out, "Verified OK")
}

// TestFile: openssl verifies the signature of a file, with keys in both formats.
func TestFile(t *testing.T) {
	pkcs8, public := keyPair(t, "P-256")
	sec1 := filepath.Join(t.TempDir(), "sec1.pem")
	if out, err := openssl(t, "ec", "-in", pkcs8, "-out", sec1); err != nil {
		t.Fatal(out)
	}
	for _, key := range []string{pkcs8, sec1} {
		file := filepath.Join(t.TempDir(), "slipway")
		must.Do(t, os.WriteFile(file, []byte("a program"), 0o600))
		must.Do(t, run(key, "", []string{file}))
		signature, err := os.ReadFile(file + ".sig")
		must.Do(t, err)
		if !verified(t, public, string(signature), []byte("a program")) || verified(t, public, string(signature), []byte("another")) {
			t.Errorf("the signature with %s is %s", key, signature)
		}
	}
}

// archive writes a layout with one image whose manifest is not read.
func archive(t *testing.T, name string) (string, ocispec.Descriptor) {
	t.Helper()
	manifest := []byte(`{"schemaVersion":2}`)
	image := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, manifest)
	listed := image
	listed.Annotations = map[string]string{containerdName: name, ocispec.AnnotationRefName: "1.0.0"}
	index, err := json.Marshal(ocispec.Index{Manifests: []ocispec.Descriptor{listed}})
	must.Do(t, err)
	var packed bytes.Buffer
	writer := tar.NewWriter(&packed)
	for _, file := range []struct {
		name string
		text []byte
	}{{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", index}, {"blobs/sha256/" + image.Digest.Encoded(), manifest}} {
		must.Do(t, writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: 0o644, Size: int64(len(file.text))}))
		_, err := writer.Write(file.text)
		must.Do(t, err)
	}
	must.Do(t, writer.Close())
	place := filepath.Join(t.TempDir(), "image.tar")
	must.Do(t, os.WriteFile(place, packed.Bytes(), 0o600))
	return place, image
}

// TestImage reads the signed layout as cosign does: the tag of the signature,
// its payload, and the annotation that openssl verifies.
func TestImage(t *testing.T) {
	private, public := keyPair(t, "P-256")
	place, image := archive(t, "registry.example.com:5000/slipway:1.0.0")
	must.Do(t, run(private, "", []string{place}))
	written := strings.TrimSuffix(place, ".tar") + ".signed.tar"
	if out, err := exec.CommandContext(t.Context(), "tar", "-tf", written).CombinedOutput(); err != nil {
		t.Errorf("tar cannot read the archive: %v: %s", err, out)
	}
	layout, err := oci.NewFromTar(t.Context(), written)
	must.Do(t, err)
	if same, err := layout.Resolve(t.Context(), "1.0.0"); err != nil || same.Digest != image.Digest {
		t.Errorf("the image is %s and was %s: %v", same.Digest, image.Digest, err)
	}
	top, err := layout.Resolve(t.Context(), "sha256-"+image.Digest.Encoded()+".sig")
	must.Do(t, err)
	text, err := content.FetchAll(t.Context(), layout, top)
	must.Do(t, err)
	var manifest ocispec.Manifest
	must.Do(t, json.Unmarshal(text, &manifest))
	config, err := content.FetchAll(t.Context(), layout, manifest.Config)
	if err != nil || !strings.Contains(string(config), `"diff_ids":["`+manifest.Layers[0].Digest.String()+`"]`) {
		t.Errorf("the config is %s: %v", config, err)
	}
	layer := manifest.Layers[0]
	signed, err := content.FetchAll(t.Context(), layout, layer)
	must.Do(t, err)
	want := `{"critical":{"identity":{"docker-reference":"registry.example.com:5000/slipway"},"image":{"docker-manifest-digest":"` +
		image.Digest.String() + `"},"type":"cosign container image signature"},"optional":null}`
	if string(signed) != want || layer.MediaType != "application/vnd.dev.cosign.simplesigning.v1+json" {
		t.Errorf("signed is %s of the type %s", signed, layer.MediaType)
	}
	if !verified(t, public, layer.Annotations["dev.cosignproject.cosign/signature"], signed) {
		t.Errorf("the signature is %v", layer.Annotations)
	}
}

// TestRefusals: keys and archives that cannot be used are refused with the next
// step.
func TestRefusals(t *testing.T) {
	good, _ := keyPair(t, "P-256")
	other, _ := keyPair(t, "P-384")
	text := filepath.Join(t.TempDir(), "text")
	must.Do(t, os.WriteFile(text, []byte("no key"), 0o600))
	unnamed, _ := archive(t, "slipway")
	signed, _ := archive(t, "slipway:1")
	must.Do(t, run(good, "", []string{signed}))
	broken := filepath.Join(t.TempDir(), "broken.tar")
	must.Do(t, os.WriteFile(broken, []byte("no archive"), 0o600))
	for _, one := range []struct{ key, password, file, want string }{
		{"", "", text, "--key FILE"},
		{text, "", text, "no key in PEM"},
		{other, "", text, "curve P-256"},
		{cosignKey, "wrong", text, "set COSIGN_PASSWORD"},
		{good, "", unnamed, "one with a tag"},
		{good, "", strings.TrimSuffix(signed, ".tar") + ".signed.tar", "has 2 images"},
		{good, "", broken, "find index.json"},
		{good, "", text + "-not", "no such file"},
	} {
		if err := run(one.key, one.password, []string{one.file}); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("the error is %v, not one with %q", err, one.want)
		}
	}
}

// cosignKey is a key of cosign for tests, with the password "slipway".
const cosignKey = "testdata/cosign.key"

// TestCosignKey: an encrypted key in the format of cosign gives signatures for its
// public key.
func TestCosignKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, []byte("a file"), 0o600))
	must.Do(t, run(cosignKey, "slipway", []string{file}))
	signature, err := os.ReadFile(file + ".sig")
	must.Do(t, err)
	if !verified(t, filepath.Join("testdata", "cosign.pub"), string(signature), []byte("a file")) {
		t.Errorf("the signature is %s", signature)
	}
}

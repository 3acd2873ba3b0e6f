// Sign signs files of a release with a key, in the formats that cosign
// verifies. `make sign` runs it.
//
// A file gets a signature beside it, FILE.sig: the base64 of an ECDSA signature
// of its SHA-256. An archive of an image, FILE.tar, is copied to
// FILE.signed.tar with the signature in its layout, because containerd would
// import the signature as one more image.
//
// Nothing is sent to a transparency log: verification needs the public key only.
// See decision 0038 in docs/decisions: the supply chain in this repository.
package main

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

// main parses the flags and exits with 1 on an error.
func main() {
	key := flag.String("key", "", "private key in PEM: ECDSA P-256, or cosign's encrypted one with the password in COSIGN_PASSWORD")
	flag.Parse()
	if err := run(*key, os.Getenv("COSIGN_PASSWORD"), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

// run signs every file and prints the files that it wrote.
func run(keyFile, password string, files []string) error {
	if keyFile == "" || len(files) == 0 {
		return errors.New("--key FILE and the files to sign are required; openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 creates a key")
	}
	key, err := readKey(keyFile, password)
	if err != nil {
		return err
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var signed []byte
		written := name + ".sig"
		if image, ok := strings.CutSuffix(name, ".tar"); ok {
			written = image + ".signed.tar"
			signed, err = signImage(key, content)
		} else {
			signed, err = signBlob(key, content)
		}
		if err != nil {
			return fmt.Errorf("sign %s: %w", name, err)
		}
		if err := os.WriteFile(written, signed, 0o644); err != nil {
			return err
		}
		fmt.Println(written)
	}
	return nil
}

// signBlob returns the signature that cosign verify-blob --signature reads.
func signBlob(key *ecdsa.PrivateKey, content []byte) ([]byte, error) {
	digest := sha256.Sum256(content)
	signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	return []byte(base64.StdEncoding.EncodeToString(signature)), err
}

package platformcmd

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/secret"
)

const (
	platformDatabase = "platform.db"
	platformKeyFile  = "secret.key"
	// maxKeyBytes bounds the key file.
	maxKeyBytes = 4 << 10
)

// platformPlace is where a platform keeps its state.
type platformPlace struct {
	database string // the URL of the store
	sqlite   bool
	dir      string // of the SQLite file, which has the socket for commands too
	keyFile  string
}

// platformPlaceOf returns the database and the key file of validated options.
// With SQLite both have defaults in the state folder; PostgreSQL needs them
// configured.
func platformPlaceOf(options *config.Platform) (platformPlace, error) {
	place := platformPlace{database: options.Database.URL.Reveal(), keyFile: options.Database.SecretKeyFile}
	if place.database == "" {
		dir, err := stateFolder(options.State.Dir)
		if err != nil {
			return place, err
		}
		place.database = (&url.URL{Scheme: "sqlite", Path: filepath.Join(dir, platformDatabase)}).String()
	}
	u, err := url.Parse(place.database)
	if err != nil {
		return place, errors.New("database.url is not a URL")
	}
	if u.Scheme != "sqlite" {
		return place, nil
	}
	place.sqlite, place.dir = true, filepath.Dir(u.Path)
	if place.keyFile == "" {
		dir := place.dir
		if options.State.Dir != "" {
			if dir, err = stateFolder(options.State.Dir); err != nil {
				return place, err
			}
		}
		place.keyFile = filepath.Join(dir, platformKeyFile)
	}
	return place, nil
}

// prepare creates the folders, and refuses a state folder that other users can
// read.
func (p platformPlace) prepare() error {
	if !p.sqlite {
		return nil
	}
	for _, dir := range []string{p.dir, filepath.Dir(p.keyFile)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("the folder for the state: %w: choose another with --state.dir", err)
		}
	}
	info, err := os.Stat(p.dir)
	if err != nil {
		return fmt.Errorf("the folder for the state: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("others can look into %s, which has the database: run chmod 700 %s, or choose another folder with --state.dir", p.dir, p.dir)
	}
	return nil
}

// key reads the key file. With SQLite it is created at the first start, but
// never beside a database that exists: what is encrypted with the lost key
// could not be read again.
func (p platformPlace) key() (secret.Text, error) {
	text, err := readKeyFile(p.keyFile)
	if !errors.Is(err, os.ErrNotExist) || !p.sqlite {
		return text, err
	}
	if u, _ := url.Parse(p.database); u != nil {
		if info, err := os.Stat(u.Path); err == nil && info.Size() > 0 {
			return secret.Text{}, fmt.Errorf("the key file %s is gone, but the database is there: put the key file back, or name it with --database.secretKeyFile", p.keyFile)
		}
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	fresh := hex.EncodeToString(random)
	file, err := os.OpenFile(p.keyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return secret.Text{}, fmt.Errorf("make the key file: %w", err)
	}
	_, err = file.WriteString(fresh + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return secret.Text{}, errors.Join(fmt.Errorf("make the key file: %w", err), os.Remove(p.keyFile))
	}
	return secret.New(fresh), nil
}

// readKeyFile reads the key file, and refuses one that everybody can read. The
// group may: Kubernetes mounts Secrets that way.
func readKeyFile(name string) (secret.Text, error) {
	file, err := os.Open(name)
	if err != nil {
		return secret.Text{}, fmt.Errorf("the key file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return secret.Text{}, fmt.Errorf("the key file: %w", err)
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o007 != 0 {
		return secret.Text{}, fmt.Errorf("everybody can read the key file %s: run chmod 600 %s", name, name)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeyBytes+1))
	if err != nil || len(text) > maxKeyBytes {
		return secret.Text{}, fmt.Errorf("the key file %s cannot be read, or is larger than %d bytes", name, maxKeyBytes)
	}
	return secret.New(strings.TrimSpace(string(text))), nil
}

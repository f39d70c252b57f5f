// Command gen writes the API's types for the page out of the OpenAPI document, and bundles the
// page's sources into web/dist. Both are committed, and dist is embedded: who builds the
// product needs only Go. The output depends on the document, the sources and the locked
// packages alone. With -check it writes nothing and fails where something else is there than
// it would write.
//
// It runs in web/gen, after npm ci in web.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

const (
	source    = "../src"
	target    = "../dist"
	typesFile = source + "/api.gen.ts"
)

// bundled are the packages whose code is in the bundle, for their licences.
var bundled = []string{"marked", "preact"}

func main() {
	check := flag.Bool("check", false, "compare with what is there, write nothing")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	types, err := apiTypes()
	if err != nil {
		return err
	}
	if check {
		if there, err := os.ReadFile(typesFile); err != nil || !bytes.Equal(there, types) {
			return fmt.Errorf("%s is not what the API's document says: run go generate ./web", typesFile)
		}
	} else if err := os.WriteFile(typesFile, types, 0o644); err != nil {
		return err
	}
	files, err := build()
	if err != nil {
		return err
	}
	if check {
		return compare(files)
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(target, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// build returns the files of dist by name.
func build() (map[string][]byte, error) {
	result := api.Build(api.BuildOptions{
		EntryPointsAdvanced: []api.EntryPoint{{InputPath: source + "/main.tsx", OutputPath: "app"}},
		Outdir:              target,
		Bundle:              true,
		Format:              api.FormatESModule,
		Splitting:           true, // what is rarely drawn is loaded behind the rest
		ChunkNames:          "[name]",
		Target:              api.ES2022,
		Engines: []api.Engine{{Name: api.EngineChrome, Version: "123"},
			{Name: api.EngineFirefox, Version: "121"}, {Name: api.EngineSafari, Version: "17.5"}},
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsNone, // licenses.txt has them whole
		Plugins:           []api.Plugin{lexerOnly},
		LogLevel:          api.LogLevelWarning,
	})
	if len(result.Errors) > 0 {
		return nil, fmt.Errorf("bundle: %d errors", len(result.Errors))
	}
	files := make(map[string][]byte)
	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	for _, name := range []string{"index.html", "favicon.svg"} {
		b, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return nil, err
		}
		files[name] = b
	}
	var licences strings.Builder
	for _, name := range bundled {
		b, err := os.ReadFile(filepath.Join("../node_modules", name, "LICENSE"))
		if os.IsNotExist(err) {
			b, err = os.ReadFile(filepath.Join("../node_modules", name, "LICENSE.md"))
		}
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&licences, "%s\n%s\n\n%s\n\n", name, strings.Repeat("-", len(name)), bytes.TrimSpace(b))
	}
	files["licenses.txt"] = []byte(strings.TrimSpace(licences.String()) + "\n")
	return files, nil
}

// lexerOnly leaves of marked what the page uses. The module puts its whole interface together
// when it is loaded, which no bundler may drop: without that last statement list, everything
// that the lexer does not need goes, a third of the module.
var lexerOnly = api.Plugin{Name: "lexer only", Setup: func(b api.PluginBuild) {
	assembly := regexp.MustCompile(`(?s)var (\w+)=new \w+;function \w+\(\w+,\w+\)\{return (\w+)\.parse\(.*export\{.*?(\w+) as Lexer.*$`)
	b.OnLoad(api.OnLoadOptions{Filter: `[/\\]marked\.esm\.js$`}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		code, err := os.ReadFile(a.Path)
		if err != nil {
			return api.OnLoadResult{}, err
		}
		m := assembly.FindSubmatchIndex(code)
		if m == nil || !bytes.Equal(code[m[2]:m[3]], code[m[4]:m[5]]) {
			return api.OnLoadResult{}, fmt.Errorf("%s does not end as this version of marked did", a.Path)
		}
		kept := string(code[:m[0]]) + "export{" + string(code[m[6]:m[7]]) + " as Lexer};"
		return api.OnLoadResult{Contents: &kept, Loader: api.LoaderJS}, nil
	})
}}

func compare(files map[string][]byte) error {
	there, err := os.ReadDir(target)
	if err != nil {
		return err
	}
	for _, e := range there {
		if _, ok := files[e.Name()]; !ok {
			return fmt.Errorf("dist/%s is not built from anything: run go generate ./web", e.Name())
		}
	}
	for name, content := range files {
		b, err := os.ReadFile(filepath.Join(target, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(b, content) {
			return fmt.Errorf("dist/%s is not what its sources make: run go generate ./web", name)
		}
	}
	return nil
}

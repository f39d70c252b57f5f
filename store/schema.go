package store

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// table is one of the schema.
type table struct {
	name    string
	columns []column
	key     []string // of the primary key
}

type column struct{ name, kind string }

// statements are those of a migration.
func statements(name string) ([]string, error) {
	text, err := fs.ReadFile(migrations, name)
	if err != nil {
		return nil, err
	}
	var all []string
	for statement := range strings.SplitSeq(string(text), ";\n") {
		if strings.TrimSpace(statement) != "" {
			all = append(all, statement)
		}
	}
	return all, nil
}

// schema reads the tables out of the migrations, in their order, in which a row's table comes after
// those that it refers to. Kinds are TEXT, BIGINT, BOOLEAN and BYTEA.
func schema() ([]*table, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var all []*table
	byName := map[string]*table{}
	for _, name := range names {
		list, err := statements(name)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			lines := strings.Split(s, "\n")
			for len(lines) > 1 && (lines[0] == "" || strings.HasPrefix(lines[0], "--")) {
				lines = lines[1:]
			}
			words := strings.Fields(lines[0])
			switch what := strings.Join(words[:2], " "); {
			case what == "CREATE TABLE":
				t := &table{name: words[2]}
				for _, line := range lines[1 : len(lines)-1] {
					t.define(strings.TrimSuffix(strings.TrimSpace(line), ","))
				}
				all, byName[t.name] = append(all, t), t
			case what == "ALTER TABLE" && words[3] == "ADD" && byName[words[2]] != nil:
				byName[words[2]].define(strings.Join(words[5:], " "))
			case what == "ALTER TABLE" && words[3] == "DROP" && byName[words[2]] != nil:
				t := byName[words[2]]
				t.columns = slices.DeleteFunc(t.columns, func(c column) bool { return c.name == words[5] })
			case what == "CREATE INDEX", what == "CREATE UNIQUE", what == "INSERT INTO":
			default:
				return nil, fmt.Errorf("%s: a move does not know what becomes of %q", name, lines[0])
			}
		}
	}
	return all, nil
}

// define adds what a line of a table's definition says.
func (t *table) define(line string) {
	words := strings.Fields(line)
	switch {
	case words[0] == "UNIQUE":
	case words[0] == "PRIMARY":
		_, list, _ := strings.Cut(strings.TrimSuffix(line, ")"), "(")
		t.key = strings.Split(list, ", ")
	default:
		t.columns = append(t.columns, column{words[0], words[1]})
		if strings.Contains(line, "PRIMARY KEY") {
			t.key = words[:1]
		}
	}
}

// names lists the columns, as SQL does.
func (t *table) names() string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

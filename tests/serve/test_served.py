"""What a server loads: a model file, or a folder of parts, which it notices when it is written anew."""

import shutil

from clusters import write_table
from commands import run

from rafm.serve.served import load_served, signature_of
from rafm.serve.settings import Settings


def test_a_folder_of_parts_is_served_and_a_new_manifest_is_noticed(tmp_path):
    data = write_table(tmp_path / "clicks.parquet", 300)
    command = ["train", data, "--label", "click", "--ray", "none", "--model", "lr", "--epochs", "1", "--out"]
    assert run(*command, f"{tmp_path / 'parts'}/").code == 0
    assert run(*command, tmp_path / "m.rafm").code == 0
    row = {"c0": "v1", "c1": "v41", "c2": "v81"}
    (one, _), (parts, before) = (load_served(Settings(str(tmp_path / name))) for name in ("m.rafm", "parts"))
    assert one.scorer.score([row]) == parts.scorer.score([row])
    assert (parts.name, parts.sha256 != one.sha256) == ("parts", True)
    assert signature_of(str(tmp_path / "parts")) == before
    shutil.copy(tmp_path / "parts" / "model.json", tmp_path / "copy.json")
    (tmp_path / "copy.json").replace(tmp_path / "parts" / "model.json")
    assert signature_of(str(tmp_path / "parts")) != before

"""What is said to people who bring models that cannot be raced, and what they can do. Templates, as in `below`."""

from __future__ import annotations

SENTENCES = {
    "No model is named.": ("没有写模型。", "沒有寫模型。"),
    "{name} is a file.": ("{name} 是一个文件。", "{name} 是一個檔案。"),
    "A model is a folder with config.json, tokenizer and safetensors weights, or a hub id (owner/name).": (
        "模型是含有 config.json、分词器和 safetensors 权重的文件夹，或 hub 名称（所有者/名称）。",
        "模型是含有 config.json、分詞器和 safetensors 權重的資料夾，或 hub 名稱（擁有者/名稱）。",
    ),
    "Put the tokenizer.json and tokenizer_config.json of its repository beside its config.json.": (
        "请把其仓库的 tokenizer.json 和 tokenizer_config.json 放到 config.json 旁边。",
        "請把其儲存庫的 tokenizer.json 和 tokenizer_config.json 放到 config.json 旁邊。",
    ),
    "{name} holds an adapter, not a whole model.": (
        "{name} 中是适配器，不是完整的模型。",
        "{name} 中是適配器，不是完整的模型。",
    ),
    "Merge it into the model that it was made for (merge_and_unload), save that, and name its folder.": (
        "请把它合并到所属的模型（merge_and_unload），保存后给出该文件夹。",
        "請把它合併到所屬的模型（merge_and_unload），儲存後給出該資料夾。",
    ),
    "{name} is a draft head, which cannot stand alone.": (
        "{name} 是起草用的头，不能单独使用。",
        "{name} 是起草用的頭，不能單獨使用。",
    ),
    "Name the model it was made for as the target.": (
        "请以它所属的模型为目标。",
        "請以它所屬的模型為目標。",
    ),
    "Fetch its config.json again, or choose a model that transformers knows.": (
        "请重新获取其 config.json，或选 transformers 认识的模型。",
        "請重新取得其 config.json，或選 transformers 認識的模型。",
    ),
    "Fetch all of it again, or choose another.": (
        "请重新获取全部文件，或换一个。",
        "請重新取得全部檔案，或換一個。",
    ),
    "The tokenizer of {name} has token {id}, and the model has {n} in all.": (
        "{name} 的分词器有词元 {id}，而模型总共只有 {n} 个。",
        "{name} 的分詞器有詞元 {id}，而模型總共只有 {n} 個。",
    ),
    "The two do not belong together: take both from one repository.": (
        "两者不匹配：请从同一个仓库取得。",
        "兩者不相配：請從同一個儲存庫取得。",
    ),
    "{name} lacks {file}, so its weights are not complete.": (
        "{name} 缺少 {file}，权重不完整。",
        "{name} 缺少 {file}，權重不完整。",
    ),
    "Fetch the missing files, or all of it.": (
        "请获取缺少的文件，或全部重新获取。",
        "請取得缺少的檔案，或全部重新取得。",
    ),
    "Choose a smaller model, or int8, int4.": (
        "请选更小的模型，或 int8、int4。",
        "請選更小的模型，或 int8、int4。",
    ),
    "{name} was saved as {kind}, which writes no text.": (
        "{name} 保存为 {kind}，它不写文本。",
        "{name} 儲存為 {kind}，它不寫文字。",
    ),
    "Choose a model that continues a text, as chat models do.": (
        "请选会续写文本的模型，例如对话模型。",
        "請選會續寫文字的模型，例如對話模型。",
    ),
    "The weights of {name} are pointers of Git LFS, not the weights themselves.": (
        "{name} 的权重只是 Git LFS 指针，不是权重本身。",
        "{name} 的權重只是 Git LFS 指標，不是權重本身。",
    ),
    "Run `git lfs pull` in its folder, and try again.": (
        "请在其文件夹中运行 `git lfs pull`，再试一次。",
        "請在其資料夾中執行 `git lfs pull`，再試一次。",
    ),
    "The weights of {name} have other shapes than its config.json says.": (
        "{name} 的权重形状与其 config.json 所写不同。",
        "{name} 的權重形狀與其 config.json 所寫不同。",
    ),
    "{name} is stored quantised by another method ({method}), which is not read here.": (
        "{name} 以另一种量化方法（{method}）保存，此处不读取。",
        "{name} 以另一種量化方法（{method}）儲存，此處不讀取。",
    ),
    "Take the unquantised model: it is loaded in int8 or int4 where that is asked for.": (
        "请用未量化的模型：需要时会以 int8 或 int4 加载。",
        "請用未量化的模型：需要時會以 int8 或 int4 載入。",
    ),
    "Take a head that was trained for this very target, a model of its family, or n-gram lookup.": (
        "请用为该目标训练的头、同族的模型，或 n-gram 查找。",
        "請用為該目標訓練的頭、同族的模型，或 n-gram 查找。",
    ),
    "Choose a model that reads from left to right and keeps nothing but keys and values.": (
        "请选从左到右阅读、只保存键和值的模型。",
        "請選從左到右閱讀、只保存鍵和值的模型。",
    ),
    "{kind} models cannot be run over a cache of ours ({error}).": (
        "{kind} 模型无法在这里的缓存上运行（{error}）。",
        "{kind} 模型無法在這裡的快取上執行（{error}）。",
    ),
    (
        "{kind} models compute something else over a cache than without one, so speculative decoding would be wrong "
        "with them."
    ): (
        "{kind} 模型带缓存与不带缓存的结果不同，用它做投机解码会出错。",
        "{kind} 模型帶快取與不帶快取的結果不同，用它做投機解碼會出錯。",
    ),
    "The memory ran out while the pair was made ready.": (
        "准备这一对模型时内存用尽。",
        "準備這一對模型時記憶體用盡。",
    ),
    "Load the models in int8 or int4, take a smaller draft or n-gram lookup, or free some, and try again.": (
        "请以 int8 或 int4 加载模型，用更小的草稿或 n-gram 查找，或腾出一些内存，再试一次。",
        "請以 int8 或 int4 載入模型，用更小的草稿或 n-gram 查找，或騰出一些記憶體，再試一次。",
    ),
}

